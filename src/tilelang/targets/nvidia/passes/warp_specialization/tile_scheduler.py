"""Dynamic tile scheduler: persistent blocks take tiles of different work from a counter in global memory.

Takes the loop over tiles of `persist_grid`, in which a block computes every n-th tile; gives what its producer
and consumers do instead of counting, and the kernel that resets the counter. Blocks stay at most a tile apart, so that
they share what is in L2, and none ends late.

    producer:   number = block; for each iteration: wait until a slot is empty; slot = number; arrive at its full
                barrier; exit if there is no such tile; take the next number; loads...
    consumers:  for each iteration: wait until the slot is full; number = slot; arrive at its empty barrier; exit if
                there is no such tile; ...

Invariant: every tile is computed once, and both partitions of a block see the same numbers.
"""

from __future__ import annotations

import dataclasses

from tilelang.dtypes import INT32, SCALARS
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var, binary, const
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import (
    Alloc,
    Atomic,
    AtomicOp,
    Bind,
    Break,
    CallStmt,
    For,
    If,
    Launch,
    LaunchHints,
    Seq,
    Stmt,
    Store,
)
from tilelang.records import record
from tilelang.targets.gpu.isa.sync import SYNC_WARP
from tilelang.targets.gpu.isa.warp import shuffle
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_ARRIVE, MBARRIER_INIT, MBARRIER_WAIT
from tilelang.targets.nvidia.machines import WARP_SIZE
from tilelang.targets.nvidia.schedule import Schedule

_SLOTS = 2  # numbers that the producer is ahead
_ZERO, _ONE = const(0, INT32), const(1, INT32)
_ALL_LANES = const(2**WARP_SIZE - 1, SCALARS["uint32"])


@record(slots=True, eq=False)
class TileScheduler:
    """The scheduler of a launch.

    Attributes:
        loop: The loop over the tiles of a block.
        number: The binding at its beginning, which numbers the tile that a block computes next.
        tiles: How many tiles there are.
        block: The index of the block.
        blocks: How many blocks there are.
        consumer_warps: How many warps read each number.
        counter: How many tiles blocks have taken beyond their first ones.
        next_number: The producer's next number.
        slots: Numbers on their way from the producer to the consumers.
        full: A barrier for each slot.
        empty: Another one.
    """

    loop: For
    number: Bind
    tiles: int
    block: Expr
    blocks: Expr
    consumer_warps: int
    counter: Buffer
    next_number: Buffer
    slots: Buffer
    full: Buffer
    empty: Buffer

    def barrier_inits(self) -> list[Stmt]:
        """Initializes the barriers."""
        counts = ((self.full, 1), (self.empty, self.consumer_warps))
        places = [(barriers, count, const(slot, INT32)) for barriers, count in counts for slot in range(_SLOTS)]
        return [CallStmt(MBARRIER_INIT, (_at(barriers, slot), const(count, INT32))) for barriers, count, slot in places]

    def reset(self) -> list[Stmt]:
        """Allocates the counter, and resets it by a kernel of its own."""
        thread = Var("thread", INT32, index=True)
        body = If(thread == 0, Store(self.counter, (_ZERO,), _ZERO))
        block = Var("block", INT32, index=True)
        plan = LaunchPlan(generated=True)
        kernel = Launch((block,), (_ONE,), (WARP_SIZE, 1, 1), Seq((body,)), LaunchHints(), thread, plan)
        return [Alloc(self.counter), dataclasses.replace(kernel, loc=self.loop.loc)]

    # -- the producer ---------------------------------------------------------------------------------------------
    def first(self) -> Stmt:
        """Allocates the producer's next number: the first tile of a block is that of its index."""
        return Alloc(self.next_number, self.block)

    def take(self, iteration: Expr, number: Var) -> list[Stmt]:
        """The producer passes its number on, exits the loop if there is no such tile, and takes the next one."""
        slot, following, taken = iteration % _SLOTS, Var("following", INT32, index=True), Var("taken", INT32)
        return [
            CallStmt(MBARRIER_WAIT, (_at(self.empty, slot), 1 - iteration // _SLOTS % 2)),
            Bind(following, Load(self.next_number, (), INT32)),
            _nonnegative(number, following),
            Store(self.slots, (slot,), number),
            CallStmt(MBARRIER_ARRIVE, (_at(self.full, slot),)),
            If(number >= self.tiles, Break()),
            Atomic(AtomicOp.ADD, self.counter, (_ZERO,), _ONE, result=taken),
            Store(self.next_number, (), self.blocks + taken),
        ]

    # -- consumers ------------------------------------------------------------------------------------------------
    def receive(self, iteration: Expr, number: Var, thread: Expr) -> list[Stmt]:
        """Consumers read their number, and exit the loop if there is no such tile."""
        slot, read, first = iteration % _SLOTS, Var("read", INT32), Var("first_lane", INT32, index=True)
        # what the first lane has read is provably the same in all lanes: ptxas keeps what follows in uniform registers
        shuffled = (_ALL_LANES, read, _ZERO, const(WARP_SIZE, INT32))
        return [
            CallStmt(MBARRIER_WAIT, (_at(self.full, slot), iteration // _SLOTS % 2)),
            Bind(read, Load(self.slots, (slot,), INT32)),
            CallStmt(SYNC_WARP, (_ALL_LANES,)),
            If(thread % WARP_SIZE == 0, CallStmt(MBARRIER_ARRIVE, (_at(self.empty, slot),))),
            CallStmt(shuffle("idx", INT32), shuffled, result=first),
            _nonnegative(number, first),
            If(number >= self.tiles, Break()),
        ]

    def with_all_iterations(self, loop: For) -> For:
        """The loop of a partition, in which a block may compute any number of tiles."""
        return dataclasses.replace(loop, stop=const(self.tiles, INT32))


def tile_scheduler(launch: Launch, schedule: Schedule) -> TileScheduler | None:
    """The scheduler of a persistent launch whose tiles take different times; None for others."""
    if schedule.tile_order is None:
        return None
    (loop,) = statements_of(launch.body)
    number = statements_of(loop.body)[0] if isinstance(loop, For) else None
    if not isinstance(loop, For) or not isinstance(number, Bind):
        raise CompilerBug("specialize_warps: a tile order without a loop over tiles")
    count = (const(_SLOTS, INT32),)
    full, empty = (Buffer(f"tile_{name}", count, SCALARS["uint64"], Scope.BARRIER) for name in ("full", "empty"))
    return TileScheduler(
        loop,
        number,
        schedule.tile_order.tiles,
        launch.block_vars[0],
        launch.grid[0],
        schedule.consumer_threads // WARP_SIZE,
        Buffer("tile_counter", (_ONE,), INT32, Scope.GLOBAL),
        Buffer("next_number", (), INT32, Scope.VAR),
        Buffer("tile_numbers", count, INT32, Scope.SHARED),
        full,
        empty,
    )


def _nonnegative(number: Var, value: Expr) -> Bind:
    """Binds a number that is not negative, provably so."""
    return Bind(number, binary(BinaryOp.BITAND, value, const(2**31 - 1, INT32)))


def _at(barriers: Buffer, slot: Expr) -> Region:
    return Region(barriers, (slot,), (_ONE,))
