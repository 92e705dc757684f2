"""Dynamic tile scheduler: persistent blocks take tiles of different work from a counter in global memory.

Takes the loop over tiles of `persist_grid`, in which a block computes every n-th tile; gives what its producer
and consumers do instead of counting, and the kernel that resets the counter. Blocks stay at most a tile apart, so that
they share what is in L2, and none ends late.

    producer:   number = block; for each iteration: acquire a slot; slot = number; commit; exit if there is no such
                tile; take the next number; loads...
    consumers:  for each iteration: wait for the slot; number = slot; release; exit if there is no such tile; ...

Invariant: every tile is computed once, and both partitions of a block see the same numbers.
"""

from __future__ import annotations

import dataclasses

from tilelang.dtypes import INT32, SCALARS
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, Load, Var, binary, const
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.pipeline import Acquire, Commit, Pipeline, Release, Wait, barriers
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
    Group,
    If,
    Launch,
    LaunchHints,
    Seq,
    Stmt,
    Store,
)
from tilelang.records import record
from tilelang.targets.gpu.isa.warp import shuffle

_SLOTS = 2  # numbers that the producer is ahead
_ZERO, _ONE = const(0, INT32), const(1, INT32)


@record(slots=True, eq=False)
class TileScheduler:
    """The scheduler of a launch.

    Attributes:
        loop: The loop over the tiles of a block.
        number: The binding at its beginning, which numbers the tile that a block computes next.
        tiles: How many tiles there are.
        block: The index of the block.
        blocks: How many blocks there are.
        warp_size: Threads of a warp.
        counter: How many tiles blocks have taken beyond their first ones.
        next_number: The producer's next number.
        slots: Numbers on their way from the producer to the consumers.
        pipeline: The pipeline of the slots.
    """

    loop: For
    number: Bind
    tiles: int
    block: Expr
    blocks: Expr
    warp_size: int
    counter: Buffer
    next_number: Buffer
    slots: Buffer
    pipeline: Pipeline

    def reset(self) -> list[Stmt]:
        """Allocates the counter, and resets it by a kernel of its own."""
        thread = Var("thread", INT32, index=True)
        body = If(thread == 0, Store(self.counter, (_ZERO,), _ZERO))
        block = Var("block", INT32, index=True)
        plan = LaunchPlan(generated=True)
        kernel = Launch((block,), (_ONE,), (self.warp_size, 1, 1), Seq((body,)), LaunchHints(), thread, plan)
        return [Alloc(self.counter), dataclasses.replace(kernel, loc=self.loop.loc)]

    # -- the producer ---------------------------------------------------------------------------------------------
    def first(self) -> Stmt:
        """Allocates the producer's next number: the first tile of a block is that of its index."""
        return Alloc(self.next_number, self.block)

    def take(self, iteration: Expr, number: Var) -> list[Stmt]:
        """The producer passes its number on, exits the loop if there is no such tile, and takes the next one."""
        slot, following, taken = iteration % _SLOTS, Var("following", INT32, index=True), Var("taken", INT32)
        return [
            Acquire(self.pipeline, slot, iteration // _SLOTS % 2),
            Bind(following, Load(self.next_number, (), INT32)),
            _nonnegative(number, following),
            Store(self.slots, (slot,), number),
            Commit(self.pipeline, slot),
            If(number >= self.tiles, Break()),
            Atomic(AtomicOp.ADD, self.counter, (_ZERO,), _ONE, result=taken),
            Store(self.next_number, (), self.blocks + taken),
        ]

    # -- consumers ------------------------------------------------------------------------------------------------
    def receive(self, iteration: Expr, number: Var) -> list[Stmt]:
        """Consumers read their number, and exit the loop if there is no such tile."""
        slot, read, first = iteration % _SLOTS, Var("read", INT32), Var("first_lane", INT32, index=True)
        # what the first lane has read is provably the same in all lanes, so that what follows takes uniform registers
        all_lanes = const(2**self.warp_size - 1, SCALARS[f"uint{self.warp_size}"])
        shuffled = (all_lanes, read, _ZERO, const(self.warp_size, INT32))
        return [
            Wait(self.pipeline, slot, iteration // _SLOTS % 2),
            Bind(read, Load(self.slots, (slot,), INT32)),
            Release(self.pipeline, slot),
            CallStmt(shuffle("idx", INT32), shuffled, result=first),
            _nonnegative(number, first),
            If(number >= self.tiles, Break()),
        ]

    def with_all_iterations(self, loop: For) -> For:
        """The loop of a partition, in which a block may compute any number of tiles."""
        return dataclasses.replace(loop, stop=const(self.tiles, INT32))


def tile_scheduler(launch: Launch, tiles: int, partitions: tuple[Group, Group], warp_size: int) -> TileScheduler:
    """The scheduler of a persistent launch whose tiles take different times.

    Args:
        launch: The launch, which is one loop over its tiles.
        tiles: How many there are.
        partitions: The producer and the consumers.
        warp_size: Threads of a warp.
    """
    (loop,) = statements_of(launch.body)
    number = statements_of(loop.body)[0] if isinstance(loop, For) else None
    if not isinstance(loop, For) or not isinstance(number, Bind):
        raise CompilerBug("handing out tiles without a loop over them")
    full, empty = (barriers(f"tile_{name}", _SLOTS) for name in ("full", "empty"))
    slots = Buffer("tile_numbers", (const(_SLOTS, INT32),), INT32, Scope.SHARED)
    return TileScheduler(
        loop,
        number,
        tiles,
        launch.block_vars[0],
        launch.grid[0],
        warp_size,
        Buffer("tile_counter", (_ONE,), INT32, Scope.GLOBAL),
        Buffer("next_number", (), INT32, Scope.VAR),
        slots,
        Pipeline("tile_numbers", (slots,), _SLOTS, full, empty, *partitions, partitions[1].count),
    )


def _nonnegative(number: Var, value: Expr) -> Bind:
    """Binds a number that is not negative, provably so."""
    return Bind(number, binary(BinaryOp.BITAND, value, const(2**31 - 1, INT32)))
