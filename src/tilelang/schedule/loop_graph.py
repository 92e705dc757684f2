"""The dependence graph of a loop's body, which software pipelining schedules.

Takes the statements of a body and what each costs, gives a `LoopGraph`. Invariant: two statements that conflict have an
edge of distance 0 in program order, and one back whose distance is the number of versions of the buffer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import CallStmt, Print, Stmt
from tilelang.ir.visit import jumps, walk
from tilelang.records import record
from tilelang.schedule.loop_body import LoopBody

NO_VERSIONS: Mapping[Buffer, int] = MappingProxyType({})


@record(slots=True)
class Work:
    """The cost of a statement, in cycles.

    Attributes:
        cycles: On the unit that executes it: the matrix unit if it is asynchronous, otherwise the warps.
        asynchronous: Whether the warps go on meanwhile.
        issue: Of the warps, to issue it if it is asynchronous; of a copy, until shared memory has taken it.
        latency: From its end on the unit until a statement that waits for it goes on.
        prefetched: Whether it is a copy from global memory that may be in flight across iterations.
        hinders: Whether what warps do beside it takes twice as long.
    """

    cycles: int
    asynchronous: bool = False
    issue: int = 0
    latency: int = 0
    prefetched: bool = False
    hinders: bool = False

    @property
    def warp_cycles(self) -> int:
        """The cycles in which it occupies the warps."""
        return self.issue if self.asynchronous else self.cycles

    @property
    def unit_cycles(self) -> int:
        """The cycles in which it occupies the matrix unit."""
        return self.cycles if self.asynchronous else 0


@record(slots=True)
class Edge:
    """`target` of iteration i + `distance` must run after `source` of iteration i.

    Attributes:
        source: The number of a statement.
        target: The number of a statement.
        distance: In iterations.
        waits: Whether the warps wait for an asynchronous source before they issue the target; the unit runs both in
            the order in which they are issued.
    """

    source: int
    target: int
    distance: int
    waits: bool = True


@record(slots=True)
class Value:
    """A value that statements keep in registers.

    Attributes:
        registers: Of a thread.
        touches: The numbers of the statements that write or read it, the first of which writes all of it unless it is
            carried.
        carried: Whether it lives from one iteration to the next, or outside of the loop.
    """

    registers: int
    touches: tuple[int, ...]
    carried: bool


@record(slots=True)
class LoopGraph:
    """The statements of a loop's body and their dependences.

    Attributes:
        work: Of each statement, in program order.
        edges: The dependences.
        values: What they keep in registers.
        registers: How many registers of a thread these may take in another order than that of the program; None if that
            does not matter.
        one_stage_registers: How many more they may take where all statements run in one stage.
        together: Sets of statements that must run in the same stage.
        runs: The number of the run of each statement, if those of a lower number come first in an iteration of the
            pipelined loop; empty if dependences alone decide.
        loading: The statements that read shared memory.
        exchanging: Those of them that read what statements other than copies write there, after a barrier.
        groups: Groups of warps among which the work is divided, and which wait independently of each other.
        in_flight: For how many iterations asynchronous statements may stay in flight when they have been issued, to
            choose from: such a graph has no other statements, and they wait for none. Empty where all statements are
            complete at the end of an iteration.
        stages: Of the tiles that a producer loads for an iteration; 0 where it never waits for a stage.
        load_cycles: From the release of a stage until it is full again.
    """

    work: tuple[Work, ...]
    edges: tuple[Edge, ...]
    values: tuple[Value, ...] = ()
    registers: int | None = None
    one_stage_registers: int = 0
    together: tuple[frozenset[int], ...] = ()
    runs: tuple[int, ...] = ()
    loading: frozenset[int] = frozenset()
    exchanging: frozenset[int] = frozenset()
    groups: int = 1
    in_flight: tuple[int, ...] = ()
    stages: int = 0
    load_cycles: int = 0

    @property
    def warp_cycles(self) -> int:
        """The cycles of an iteration in which the warps are busy."""
        return sum(each.warp_cycles for each in self.work)

    @property
    def unit_cycles(self) -> int:
        """The cycles of an iteration in which the matrix unit is busy."""
        return sum(each.unit_cycles for each in self.work)

    @property
    def serial_cycles(self) -> int:
        """The cycles of an iteration in program order, where a wait comes after each asynchronous statement."""
        return sum(each.cycles + each.latency for each in self.work)

    @property
    def lower_bound(self) -> int:
        """The cycles of an iteration in which the matrix unit never idles, or the warps never do."""
        return max(self.unit_cycles, self.warp_cycles)


def loop_graph(
    body: LoopBody,
    cost: Callable[[Stmt], Work],
    versions: Mapping[Buffer, int] = NO_VERSIONS,
    waits: Callable[[Stmt, Stmt], bool] = lambda earlier, later: True,
) -> LoopGraph:
    """The graph of a loop's body.

    Args:
        body: The body, without the loads of its producer if it has one.
        cost: What a statement costs.
        versions: The versions of shared buffers that have several.
        waits: Whether a later statement waits for an earlier one of the same iteration with which it conflicts.
    """
    edges: dict[Edge, None] = {}
    for storage, touching in body.storages.items():
        users = [(number, write) for number, _, write in touching]
        for edge in _conflicts(users, versions.get(storage, 1)):
            ends = body.statements[edge.source], body.statements[edge.target]
            edges[edge if edge.distance or waits(*ends) else dataclasses.replace(edge, waits=False)] = None
    for number, stmt in enumerate(body.statements):
        for result in body.results(stmt):
            for user, other in enumerate(body.statements):
                if user != number and body.uses(other, result):
                    edges[Edge(number, user, 0)] = edges[Edge(user, number, 1)] = None
    work = tuple(map(cost, body.statements))
    loading, exchanging = set[int](), set[int]()
    for storage, touching in body.storages.items():
        if storage.scope is Scope.SHARED:
            readers = {number for number, _, write in touching if not write}
            loading |= readers
            if any(write and not work[number].prefetched for number, _, write in touching):
                exchanging |= readers
    return LoopGraph(work, tuple(edges), loading=frozenset(loading), exchanging=frozenset(exchanging))


def reordering_refusal(body: LoopBody) -> str:
    """Why statements cannot be reordered across iterations; empty if they can."""
    if jumps(body.loop.body):
        return "it is left or continued in the middle of an iteration"
    for stmt in body.statements:
        if any(isinstance(each, CallStmt | Print) for each in walk(stmt)):
            return "it calls instructions or prints"
        if any(map(body.is_volatile, body.bound_variables(stmt))):
            return "a value bound in it is loaded from memory that it writes"
    return ""


def _conflicts(touching: Sequence[tuple[int, bool]], versions: int) -> list[Edge]:
    """The dependences between the statements that access one storage: (number, whether it writes) each."""
    edges: list[Edge] = []
    for n, first_writes in touching:
        for m, second_writes in touching:
            if n < m and (first_writes or second_writes):
                edges += [Edge(n, m, 0), Edge(m, n, versions)]
    return edges
