"""Which tiles of a launch other threads can bring than those that compute, and how often they do it.

Takes a launch and who can bring what, gives `Ring`s: copies whose tiles one pair of barriers says to be full or empty.
Invariant: what a ring brings is written by nothing else, and read only by later statements of the sequence in which its
copies stand; where the copies read from, and how often, is known to every thread, or each can compute it for itself.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Const, Expr, Var, const, int_const
from tilelang.ir.stmt import Alloc, Bind, For, ForKind, If, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, jumps, sub_statements, walk, walk_expr, written_buffers
from tilelang.lowering.regions import is_whole, shared_storages
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.records import record
from tilelang.targets.nvidia.passes.roles.scalars import Origins, Scalars

CanBring = Callable[[Copy], str]
"""Why the copy engine cannot do a copy; empty if it can."""

_LEAST_STAGES = 2  # with fewer versions nothing is brought while something is used


@record(slots=True, eq=False)
class Ring:
    """Copies whose tiles are full at the same time, and empty at the same time.

    Attributes:
        copies: In program order.
        home: The sequence in which they stand.
        path: The loops and branches around that, outermost first.
        first: The statement of `home` that reads the tiles first.
        last: The one that reads them last.
        readers: All statements that read them.
        scalars: What every thread can compute for itself.
    """

    copies: tuple[Copy, ...]
    home: Seq
    path: tuple[For | If, ...]
    first: Stmt
    last: Stmt
    readers: tuple[Stmt, ...]
    scalars: Scalars

    def origins(self, *copies: Copy) -> Origins:
        """What it comes from where copies read, and how often; of all copies if none is given."""
        deciding = [index for copy in copies or self.copies for index in copy.source_indices]
        for step in self.path:
            deciding += [step.start, step.stop] if isinstance(step, For) else [step.condition]
        return self.scalars.origins(deciding)

    @property
    def tiles(self) -> tuple[Buffer, ...]:
        """What the copies fill."""
        return tuple(copy.dst.buffer for copy in self.copies)

    @property
    def bytes(self) -> int:
        """What arrives each time."""
        return sum(map(self.bytes_of, self.copies))

    @staticmethod
    def bytes_of(copy: Copy) -> int:
        """What a copy brings each time."""
        return math.prod(copy.dst.static_extent or ()) * copy.dst.dtype.storage_bytes

    @property
    def loop(self) -> For | None:
        """The innermost loop around the copies."""
        return next((step for step in reversed(self.path) if isinstance(step, For)), None)

    @property
    def pipelined(self) -> bool:
        """Whether the user wants the copies ahead of what uses them."""
        return self.loop is not None and is_pipelined(self.loop)

    def uses(self) -> Uses:
        """How often the tiles are filled."""
        loops = [step for step in self.path if isinstance(step, For)]
        if not loops:
            return Uses(const(0, INT32), 1)
        inside = {loops[0].var} | {s.var for s in walk(loops[0].body) if isinstance(s, Bind | For)}
        branches = any(isinstance(step, If) for step in self.path[self.path.index(loops[0]) :])
        counts = [trips(loop) for loop in loops]
        if branches or any(_names(count, inside) for count in counts[1:]):
            return Uses(None, None)
        if any(self.scalars.changes_within(end, loops[0].body) for loop in loops for end in (loop.start, loop.stop)):
            return Uses(None, None)
        number, most = iteration(loops[0]), int_const(counts[0])
        for loop, count in zip(loops[1:], counts[1:], strict=True):
            times = int_const(count)
            number = number * count + iteration(loop)
            most = None if most is None or times is None else most * times
        return Uses(number, most)


@record(slots=True)
class Uses:
    """How often the tiles of a ring are filled.

    Attributes:
        number: How often before, as an expression of the loops' variables; None where counting alone can tell.
        most: How often in all, at most; None where that is not known.
    """

    number: Expr | None
    most: int | None


@record(slots=True)
class Rings:
    """The answer for one launch.

    Attributes:
        found: The rings, in the order of their first copies.
        refused: Copies from global to shared memory that are in none, and why.
    """

    found: tuple[Ring, ...]
    refused: tuple[tuple[Copy, str], ...]


def is_pipelined(loop: For) -> bool:
    """Whether the user wants copies of a loop to run ahead, and leaves it to the compiler how."""
    spec = loop.pipeline
    if loop.kind is not ForKind.PIPELINED or spec is None or spec.num_stages < _LEAST_STAGES:
        return False
    placed = (*(spec.order or ()), *(spec.stage or ()))
    return not placed or min(placed) < 0  # negative entries are of an older kind, which the compiler places itself


def trips(loop: For) -> Expr:
    """How many iterations a loop has, if it has any."""
    start, stop, step = loop.start, loop.stop, loop.step
    length = stop - start if step > 0 else start - stop
    length = stop if step > 0 and int_const(start) == 0 else length
    return length if abs(step) == 1 else (length + (abs(step) - 1)) // abs(step)


def iteration(loop: For) -> Expr:
    """The number of an iteration, counted from 0."""
    if loop.step < 0:
        number = loop.start - loop.var
    else:
        number = loop.var if int_const(loop.start) == 0 else loop.var - loop.start
    return number if abs(loop.step) == 1 else number // abs(loop.step)


def flat(launch: Launch) -> Launch:
    """The launch with every body a sequence of statements that are none."""
    return dataclasses.replace(launch, body=_Flat().body(launch.body))


class _Flat(Rewriter):
    def body(self, node: Stmt) -> Seq:
        """A statement as a flat sequence."""
        return Seq(tuple(self._parts(node)), loc=node.loc)

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For):
            return dataclasses.replace(node, body=self.body(node.body))
        if isinstance(node, If):
            other = None if node.else_body is None else self.body(node.else_body)
            return dataclasses.replace(node, then_body=self.body(node.then_body), else_body=other)
        return node  # nothing is brought for single iterations of what else has a body

    def _parts(self, node: Stmt) -> Iterator[Stmt]:
        if isinstance(node, Seq):
            for child in node.body:
                yield from self._parts(child)
            return
        made = self.visit(node)
        if made is not None:
            yield made


def find_rings(launch: Launch, can_bring: CanBring) -> Rings:
    """The rings of a launch, which must be `flat`."""
    search = _Search(launch, can_bring)
    search.visit(launch.body, ())
    return Rings(tuple(search.rings()), tuple(search.refused))


class _Search:
    """What is known about one launch while its copies are looked at."""

    def __init__(self, launch: Launch, can_bring: CanBring) -> None:
        self._can_bring = can_bring
        self._scalars = Scalars(launch)
        self._touching: dict[Buffer, list[Stmt]] = {}
        self._written: dict[Buffer, int] = {}  # how many statements write a piece of memory
        self._viewed: set[Buffer] = set()
        self._safe = {b.storage for b, value in launch.hints.safe_values if not isinstance(value, Const) or value.value}
        self._found: list[Ring] = []
        self.refused: list[tuple[Copy, str]] = []
        for stmt in walk(launch.body):
            self._note(stmt)

    def _note(self, stmt: Stmt) -> None:
        for storage in set(shared_storages(stmt)):
            self._touching.setdefault(storage, []).append(stmt)
        for buffer in written_buffers(stmt):
            self._written[buffer.storage] = self._written.get(buffer.storage, 0) + 1
        if isinstance(stmt, Alloc) and stmt.buffer.view_of is not None:
            self._viewed.add(stmt.buffer.storage)

    def rings(self) -> Iterator[Ring]:
        """Copies that the same statement reads first, together."""
        groups: dict[tuple[Seq, Stmt], list[Ring]] = {}
        for ring in self._found:
            groups.setdefault((ring.home, ring.first), []).append(ring)
        for (home, _), group in groups.items():
            last = max((ring.last for ring in group), key=home.body.index)
            readers = tuple(dict.fromkeys(reader for ring in group for reader in ring.readers))
            copies = tuple(copy for ring in group for copy in ring.copies)
            yield dataclasses.replace(group[0], copies=copies, last=last, readers=readers)

    def visit(self, stmt: Stmt, path: tuple[For | If, ...]) -> None:
        """Looks at the copies below a statement."""
        if isinstance(stmt, Seq):
            for position, child in enumerate(stmt.body):
                if isinstance(child, Copy):
                    self._copy(child, stmt, position, path)
                else:
                    self.visit(child, path)
        elif isinstance(stmt, For | If):
            for body in sub_statements(stmt):
                self.visit(body, (*path, stmt))

    def _copy(self, copy: Copy, home: Seq, position: int, path: tuple[For | If, ...]) -> None:
        if copy.src.buffer.scope is not Scope.GLOBAL or copy.dst.buffer.scope is not Scope.SHARED:
            return
        readers = [s for s in self._touching[copy.dst.buffer.storage] if s is not copy]
        after = {inner: child for child in home.body[position + 1 :] for inner in walk(child)}
        reason = (
            self._tile_reason(copy, readers, set(after)) or self._source_reason(copy, path) or self._can_bring(copy)
        )
        if reason:
            self.refused.append((copy, reason))
            return
        using = sorted({after[reader] for reader in readers}, key=home.body.index)
        self._found.append(Ring((copy,), home, path, using[0], using[-1], tuple(readers), self._scalars))

    def _tile_reason(self, copy: Copy, readers: list[Stmt], after: set[Stmt]) -> str:
        """What about the tile keeps others from bringing it."""
        tile = copy.dst.buffer
        if tile.storage in self._viewed:
            return f"'{tile.name}' has views"
        if not is_whole(copy.dst) and not all(_reads_within(reader, copy.dst) for reader in readers):
            return f"'{tile.name}' is not filled as a whole"
        if self._written[tile.storage] > 1:
            return f"'{tile.name}' is written in several places"
        if not readers:
            return f"nothing reads '{tile.name}'"
        if not after.issuperset(readers):
            return f"'{tile.name}' is also read elsewhere than behind the copy"
        return ""

    def _source_reason(self, copy: Copy, path: tuple[For | If, ...]) -> str:
        """What about the source, or about how often it is read, others cannot know."""
        source = copy.src.buffer
        if source.storage in self._written:
            return f"the kernel also writes '{source.name}'"
        if source.storage in self._safe:
            return f"'{source.name}' does not read 0 out of bounds"
        needed = [*copy.source_indices]
        for step in path:
            if isinstance(step, If):
                needed.append(step.condition)
                continue
            needed += [step.start, step.stop]
            if jumps(step.body):
                return "a loop around it is left or continued in the middle of an iteration"
        known = all(map(self._scalars.is_known, needed))
        return "" if known else "what it copies depends on what the block computes"


def _reads_within(stmt: Stmt, filled: Region) -> bool:
    """Whether a product reads no more of a tile than what is filled from its beginning."""
    if not isinstance(stmt, Gemm):
        return False
    regions = [region for region in (stmt.a, stmt.b, stmt.c) if region.buffer.storage is filled.buffer.storage]
    return all(_is_first(filled) and _is_first(r) and _is_below(r.static_extent, filled.static_extent) for r in regions)


def _is_first(region: Region) -> bool:
    return all(int_const(start) == 0 for start in region.start)


def _is_below(some: tuple[int, ...] | None, all_of_it: tuple[int, ...] | None) -> bool:
    return some is not None and all_of_it is not None and all(a <= b for a, b in zip(some, all_of_it, strict=True))


def _names(expr: Expr, variables: set[Var]) -> bool:
    return any(isinstance(node, Var) and node in variables for node in walk_expr(expr))
