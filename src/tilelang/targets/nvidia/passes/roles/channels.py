"""Rings with their memory: versions of tiles, and barriers that say which of them are full and which are empty.

Takes rings and a schedule, gives `Channel`s; for each role, where it stands in a channel (`Turn`). Invariant: both
roles count the uses of a channel alike, so that version and phase of a use are the same for both.

A full barrier counts the arrival that announces the bytes, and the bytes. An empty barrier counts the arrivals of those
who have read: one for each warpgroup if instructions of warpgroups did, which are over for all four warps at once,
otherwise one for each thread. Producers begin with the phase before the first, which is complete.

Where blocks of a cluster bring parts of a tile for each other, readers arrive at the empty barriers of all blocks that
write to them: a barrier then counts the readers of all blocks that its block writes to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilelang.dtypes import INT32, SCALARS
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var, const, int_const, select
from tilelang.ir.stmt import Alloc, Bind, CallStmt, If, Stmt, Store
from tilelang.records import record
from tilelang.targets.nvidia.isa.cluster import mbarrier_arrive_remote
from tilelang.targets.nvidia.isa.mbarrier import (
    MBARRIER_ARRIVE,
    MBARRIER_ARRIVE_EXPECT_TX,
    MBARRIER_INIT,
    MBARRIER_WAIT,
)
from tilelang.targets.nvidia.passes.roles.multicast import Members
from tilelang.targets.nvidia.passes.roles.rings import Ring
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS, Schedule
from tilelang.transforms.versions import versioned

_OPAQUE = SCALARS["uint64"]  # an object of 64 bits. Source: PTX ISA, "mbarrier", "Contents"
_ZERO, _ONE = const(0, INT32), const(1, INT32)


@record(slots=True, eq=False)
class Channel:
    """A ring with its memory.

    Attributes:
        ring: What is brought.
        versions: How many versions of the tiles there are.
        tiles: For each tile, the buffer that holds them: itself where there is one version.
        full: The barriers that say when a version is full.
        empty: Those that say when it is empty again; None where nothing is brought twice into one version.
        by_warpgroup: Whether only instructions of warpgroups read the tiles.
        shared: What blocks of the cluster bring together, and the dimensions of the grid along which they lie.
        senders: The numbers in the cluster of the blocks that bring it, of which the executing one is the first; empty
            where that is the only one.
        sender: In the consumers' program, the one that a thread tells of what has been read.
    """

    ring: Ring
    versions: int
    tiles: Mapping[Buffer, Buffer]
    full: Buffer
    empty: Buffer | None
    by_warpgroup: bool
    shared: Mapping[Buffer, tuple[int, ...]]
    senders: tuple[Expr, ...]
    sender: Var

    @property
    def crosses(self) -> bool:
        """Whether consumers signal barriers of other blocks."""
        return self.empty is not None and bool(self.senders)

    def inits(self, schedule: Schedule) -> list[Stmt]:
        """Initializes the barriers."""
        arrivals = schedule.tile_threads // (WARPGROUP_THREADS if self.by_warpgroup else 1)
        arrivals *= len(self.senders) or 1  # who writes to this block is who this block writes to
        made: list[Stmt] = []
        for barriers, count in ((self.full, 1), (self.empty, arrivals)):
            if barriers is not None:
                places = [_at(barriers, const(number, INT32)) for number in range(self.versions)]
                made += [CallStmt(MBARRIER_INIT, (place, const(count, INT32))) for place in places]
        return made


def channel(ring: Ring, schedule: Schedule, members: Members, *, by_warpgroup: bool) -> Channel:
    """A ring with as much memory as the schedule gives it."""
    shared = {tile: axes for tile, axes in schedule.shared if tile in ring.tiles}
    versions = schedule.stages if ring.pipelined else schedule.tile_stages
    most = ring.uses().most
    versions = versions if most is None else max(1, min(versions, most))
    name = ring.tiles[0].name
    count = (const(versions, INT32),)
    return Channel(
        ring,
        versions,
        {tile: tile if versions == 1 else versioned(tile, versions) for tile in ring.tiles},
        Buffer(f"{name}_full", count, _OPAQUE, Scope.BARRIER),
        None if most is not None and most <= versions else Buffer(f"{name}_empty", count, _OPAQUE, Scope.BARRIER),
        by_warpgroup,
        shared,
        members.senders(shared.values()),
        Var("sender", INT32),
    )


@record(slots=True)
class Turn:
    """Where a role stands in a channel.

    Attributes:
        before: What computes the others, and must stand before their uses.
        version: The number of the version.
        phase: The phase of the full barrier, 0 or 1.
        after: What goes on to the next use.
    """

    before: tuple[Stmt, ...]
    version: Expr
    phase: Expr
    after: tuple[Stmt, ...] = ()


class Role:
    """Where one role stands in all channels.

    Attributes:
        counters: Allocations of what it counts itself, which must stand at its beginning.
    """

    def __init__(self, channels: Sequence[Channel]) -> None:
        self.counters: list[Stmt] = []
        self._counted: dict[Channel, tuple[Buffer, Buffer]] = {}
        for each in channels:
            if each.ring.uses().number is None:
                pair = (_scalar("version"), _scalar("phase"))
                self._counted[each] = pair
                self.counters += [Alloc(counter, _ZERO) for counter in pair]

    def turn(self, each: Channel, named: Callable[[Expr], Expr] = lambda expr: expr) -> Turn:
        """The turn at the place where the ring stands.

        Args:
            each: The channel.
            named: An expression as this role says it, where variables and scalars have other names.
        """
        if each in self._counted:
            return self._from_counters(each)
        uses = each.ring.uses()
        assert uses.number is not None
        number = named(uses.number)
        if each.empty is None:
            return _named("version", number, _ZERO)
        if each.versions == 1:
            return _named("phase", _ZERO, number % 2)
        version, phase = number % each.versions, number // each.versions % 2
        if int_const(number) is not None:
            return Turn((), version, phase)
        first, second = (Var(text, INT32, index=True) for text in ("version", "phase"))
        return Turn((Bind(first, version), Bind(second, phase)), first, second)

    def _from_counters(self, each: Channel) -> Turn:
        counters = self._counted[each]
        names = [Var(text, INT32) for text in ("version", "phase")]
        version, phase = names
        before = [Bind(name, Load(counter, (), INT32)) for name, counter in zip(names, counters, strict=True)]
        is_last = version == each.versions - 1
        steps = (select(is_last, _ZERO, version + 1), select(is_last, 1 - phase, phase))
        after = [Store(counter, (), step) for counter, step in zip(counters, steps, strict=True)]
        return Turn(tuple(before), version, phase, tuple(after))


def _named(text: str, version: Expr, phase: Expr) -> Turn:
    """A turn of which only one part needs a name."""
    value = version if text == "version" else phase
    if int_const(value) is not None or isinstance(value, Var):
        return Turn((), version, phase)
    name = Var(text, INT32, index=True)
    parts = (name, phase) if text == "version" else (version, name)
    return Turn((Bind(name, value),), *parts)


def _scalar(name: str) -> Buffer:
    return Buffer(name, (), INT32, Scope.VAR)


def _at(barriers: Buffer, number: Expr) -> Region:
    return Region(barriers, (number,), (_ONE,))


# -- what roles do -------------------------------------------------------------------------------------------------
def await_full(each: Channel, turn: Turn) -> list[Stmt]:
    """A consumer waits until the tiles are there."""
    return [CallStmt(MBARRIER_WAIT, (_at(each.full, turn.version), turn.phase))]


def release(each: Channel, version: Expr, thread: Expr) -> list[Stmt]:
    """Consumers say that they have read the tiles of a version."""
    if each.empty is None:
        return []
    if each.senders:
        told = CallStmt(mbarrier_arrive_remote(), (_at(each.empty, version), each.sender))
        return [If(thread % WARPGROUP_THREADS < len(each.senders), told)]
    arrive = CallStmt(MBARRIER_ARRIVE, (_at(each.empty, version),))
    return [If(thread % WARPGROUP_THREADS == 0, arrive) if each.by_warpgroup else arrive]


def await_empty(each: Channel, turn: Turn) -> list[Stmt]:
    """The producer waits until a version may be filled, and announces what will come."""
    made: list[Stmt] = []
    if each.empty is not None:
        made.append(CallStmt(MBARRIER_WAIT, (_at(each.empty, turn.version), 1 - turn.phase)))
    count = const(each.ring.bytes, INT32)
    return [*made, CallStmt(MBARRIER_ARRIVE_EXPECT_TX, (_at(each.full, turn.version), count))]


def full_barrier(each: Channel, turn: Turn) -> Region:
    """The barrier that counts what comes."""
    return _at(each.full, turn.version)
