"""Finds the copies of a launch that a producer can do, and groups those that can share a pair of full/empty barriers.

Takes a launch and a test of single copies, gives `LoadGroup`s. Invariant: only copies of groups write their tiles, and
only statements behind the copies of a group, in the same sequence, read what these fill; source addresses, predicates
and trip counts are uniform, so that a producer can compute them by itself. Where several groups fill a tile, in front
of a loop and within it, or in one loop after another, each of them has that tile alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from tilelang.analysis.access_width import nonzero_safe
from tilelang.analysis.uniform_scalars import BackwardSlice, UniformScalars
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Var, const, int_const
from tilelang.ir.stmt import Alloc, Bind, For, ForKind, If, Launch, ParallelLoop, Seq, Stmt
from tilelang.ir.visit import Rewriter, jumps, sub_statements, walk, walk_expr, written_buffers
from tilelang.lowering.regions import is_whole, shared_storages
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.records import record
from tilelang.schedule.iteration import iteration_number, trip_count

CanLoadAsync = Callable[[Copy], str]
"""Why the copy engine cannot do a load; empty if it can."""

_SMALL_BYTES = 1024  # of a load that a multiprocessor receives in less time than threads take for a pair of barriers


@record(slots=True, eq=False)
class LoadGroup:
    """Copies whose tiles become full, and empty, together.

    Attributes:
        copies: In program order.
        parent: The sequence that holds them.
        path: The loops and branches around it, outermost first.
        first: The statement of `parent` that reads the tiles first.
        last: The one that reads them last.
        readers: All statements that read them.
        scalars: The uniform scalars of the launch.
        others: The sequences that hold the copies of other groups that fill the same tile.
    """

    copies: tuple[Copy, ...]
    parent: Seq
    path: tuple[For | If, ...]
    first: Stmt
    last: Stmt
    readers: tuple[Stmt, ...]
    scalars: UniformScalars
    others: tuple[Seq, ...] = ()

    def backward_slice(self, *copies: Copy) -> BackwardSlice:
        """The backward slice of the source indices and of all control flow around; of all copies if none is given."""
        sources = [index for copy in copies or self.copies for index in copy.source_indices]
        return self.scalars.backward_slice([*sources, *self._flow()])

    def flow_slice(self) -> BackwardSlice:
        """The backward slice of all control flow around, which decides how often the tiles are filled."""
        return self.scalars.backward_slice(self._flow())

    def _flow(self) -> Iterator[Expr]:
        for step in self.path:
            yield from (step.start, step.stop) if isinstance(step, For) else (step.condition,)

    @property
    def tiles(self) -> tuple[Buffer, ...]:
        """The tiles that the copies fill, each by one copy or by several in parts."""
        return tuple(dict.fromkeys(copy.dst.buffer for copy in self.copies))

    @property
    def bytes(self) -> int:
        """Bytes of all copies, for one fill."""
        return sum(map(self.bytes_of, self.copies))

    @staticmethod
    def bytes_of(copy: Copy) -> int:
        """Bytes of one copy."""
        return math.prod(copy.dst.static_extent or ()) * copy.dst.dtype.storage_bytes

    @property
    def loop(self) -> For | None:
        """The innermost loop around the copies."""
        return next((step for step in reversed(self.path) if isinstance(step, For)), None)

    @property
    def pipelined(self) -> bool:
        """Whether the copies stand in a loop that is to be pipelined."""
        return self.loop is not None and is_pipelined(self.loop)

    @property
    def is_counted(self) -> bool:
        """Whether fills can be counted from the number of an iteration where the loop around them is pipelined."""
        return not self.pipelined or self.fills_each_iteration_of() is not None

    def needs_counters(self, launch: Launch) -> bool:
        """Whether fills have to be counted at run time: trip counts differ from tile to tile of a launch's grid."""
        if any(isinstance(step, If) for step in self.path):
            return True  # also a branch around all loops, within the loop over tiles
        found = self.scalars.backward_slice(trip_count(step) for step in self.path if isinstance(step, For))
        differs = bool(found.buffers) or not found.variables.isdisjoint(launch.block_vars)
        return differs or self.fill_count().preceding is None

    def counts_fills(self, launch: Launch) -> bool:
        """Whether each fill has to be counted at run time, not only those of whole loops."""
        return self.needs_counters(launch) and self.fills_each_iteration_of() is None

    def fills_each_iteration_of(self) -> For | None:
        """The innermost loop, if each of its iterations fills the tiles once, and its bounds do not change in it."""
        loop = self.loop
        if loop is None or self.path[-1] is not loop or loop.body is not self.parent:
            return None
        if not set(self.others).isdisjoint(walk(loop.body)):
            return None
        changes = any(self.scalars.changes_within(end, loop.body) for end in (loop.start, loop.stop))
        return None if changes else loop

    def fill_count(self) -> FillCount:
        """How often the tiles are filled, before an iteration and at most."""
        loops = [step for step in self.path if isinstance(step, For)]
        if self.others:
            return FillCount(None, None)
        if not loops:
            return FillCount(const(0, INT32), 1)
        inside = {loops[0].var} | {s.var for s in walk(loops[0].body) if isinstance(s, Bind | For)}
        branches = any(isinstance(step, If) for step in self.path[self.path.index(loops[0]) :])
        counts = [trip_count(loop) for loop in loops]
        if branches or any(_names(count, inside) for count in counts[1:]):
            return FillCount(None, None)
        if any(self.scalars.changes_within(end, loops[0].body) for loop in loops for end in (loop.start, loop.stop)):
            return FillCount(None, None)
        number, most = iteration_number(loops[0]), int_const(counts[0])
        for loop, count in zip(loops[1:], counts[1:], strict=True):
            times = int_const(count)
            number = number * count + iteration_number(loop)
            most = None if most is None or times is None else most * times
        return FillCount(number, most)


@record(slots=True)
class FillCount:
    """How often the tiles of a group are filled.

    Attributes:
        preceding: Fills before the current one, as an expression of the loops' variables; None where only a counter at
            run time gives it.
        maximum: An upper bound of all fills; None where it is not known.
    """

    preceding: Expr | None
    maximum: int | None


@record(slots=True)
class LoadGroups:
    """The load groups of one launch.

    Attributes:
        found: The groups, in the order of their first copies.
        refused: Copies from global to shared memory that are in none, and why.
    """

    found: tuple[LoadGroup, ...]
    refused: tuple[tuple[Copy, str], ...]


def is_pipelined(loop: For) -> bool:
    """Whether a loop is to be pipelined with stages that the compiler assigns, as many as are of use."""
    spec = loop.pipeline
    if loop.kind is not ForKind.PIPELINED or spec is None or not spec.num_stages:
        return False
    return not spec.places_statements


def pipelined_loops(stmt: Stmt) -> list[For]:
    """The loops in a statement that are to be pipelined."""
    return [each for each in walk(stmt) if isinstance(each, For) and is_pipelined(each)]


def flatten_sequences(launch: Launch) -> Launch:
    """The launch with every body one `Seq` that holds no other `Seq`."""
    return dataclasses.replace(launch, body=_FlattenSequences().body(launch.body))


def by_tiles(load_groups: Iterable[LoadGroup]) -> list[list[LoadGroup]]:
    """Load groups, those that fill the same tile together."""
    found: dict[Buffer, list[LoadGroup]] = {}
    for each in load_groups:
        found.setdefault(each.tiles[0], []).append(each)
    return list(found.values())


class _FlattenSequences(Rewriter):
    def body(self, node: Stmt) -> Seq:
        """A statement as a sequence without nested ones."""
        return Seq(tuple(self._parts(node)), loc=node.loc)

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For):
            return dataclasses.replace(node, body=self.body(node.body))
        if isinstance(node, If):
            other = None if node.else_body is None else self.body(node.else_body)
            return dataclasses.replace(node, then_body=self.body(node.then_body), else_body=other)
        return node  # bodies of other statements hold no load groups

    def _parts(self, node: Stmt) -> Iterator[Stmt]:
        if isinstance(node, Seq):
            for child in node.body:
                yield from self._parts(child)
            return
        rewritten = self.visit(node)
        if rewritten is not None:
            yield rewritten


def find_load_groups(launch: Launch, can_load: CanLoadAsync) -> LoadGroups:
    """The load groups of a launch that comes from `flatten_sequences`."""
    search = _Search(launch, can_load)
    search.visit(launch.body, ())
    return LoadGroups(tuple(search.load_groups()), tuple(search.refused))


@record(slots=True)
class _Fill:
    """A fill of a tile.

    Attributes:
        copies: The copies of a sequence that fill it together.
        behind: The statements of that sequence behind them, up to the next one in which it is written again.
        readers: The statements that read the tile there.
    """

    copies: tuple[Copy, ...]
    behind: tuple[Stmt, ...]
    readers: tuple[Stmt, ...]


class _Search:
    """The search for load groups in one launch."""

    def __init__(self, launch: Launch, can_load: CanLoadAsync) -> None:
        self._can_load = can_load
        self._scalars = UniformScalars(launch)
        self._touching: dict[Buffer, list[Stmt]] = {}
        self._writers: dict[Buffer, list[Stmt]] = {}  # the statements that write a storage
        self._parents: dict[Stmt, Seq] = {}
        self._viewed: set[Buffer] = set()
        self._nonzero_safe = nonzero_safe(launch)
        self._found: list[LoadGroup] = []
        self.refused: list[tuple[Copy, str]] = []
        for stmt in walk(launch.body):
            self._note(stmt)

    def _note(self, stmt: Stmt) -> None:
        if isinstance(stmt, Seq):
            self._parents |= dict.fromkeys(stmt.body, stmt)
        for storage in set(shared_storages(stmt)):
            self._touching.setdefault(storage, []).append(stmt)
        for buffer in written_buffers(stmt):
            self._writers.setdefault(buffer.storage, []).append(stmt)
        if isinstance(stmt, Alloc) and stmt.buffer.view_of is not None:
            self._viewed.add(stmt.buffer.storage)

    def load_groups(self) -> Iterator[LoadGroup]:
        """Joins copies with the same first reader, those for one gemm, and small ones to others in use for longer."""
        groups: dict[tuple[Seq, Stmt, tuple[Buffer, ...]], list[LoadGroup]] = {}
        for load_group in self._with_all_fills():
            alone = load_group.tiles if load_group.others else ()
            groups.setdefault((load_group.parent, load_group.first, alone), []).append(load_group)
        joined: list[LoadGroup] = []
        for load_group in map(_joined, groups.values()):
            for number, each in enumerate(joined):
                if load_group.others or each.others:
                    continue
                if _is_small_within(load_group, each) or _computes_operand_of(each, load_group):
                    joined[number] = _joined((each, load_group))
                    break
                if _computes_operand_of(load_group, each):
                    joined[number] = _joined((load_group, each))
                    break
            else:
                joined.append(load_group)
        yield from joined

    def _with_all_fills(self) -> list[LoadGroup]:
        """The groups found, without those of tiles of which a producer cannot do, or count, all fills."""
        filling = {copy for each in self._found for copy in each.copies}
        filling -= {copy for each in self._found if each.others and not each.is_counted for copy in each.copies}
        left: list[LoadGroup] = []
        for each in self._found:
            (tile,) = each.tiles
            if filling.issuperset(self._writers[tile.storage]):
                left.append(each)
            else:
                self.refused += [(copy, _in_several_places(tile)) for copy in each.copies]
        return left

    def visit(self, stmt: Stmt, path: tuple[For | If, ...]) -> None:
        """Visits the copies below a statement."""
        if isinstance(stmt, Seq):
            for position, child in enumerate(stmt.body):
                if isinstance(child, Copy):
                    self._copy(child, stmt, position, path)
                else:
                    self.visit(child, path)
        elif isinstance(stmt, For | If):
            for body in sub_statements(stmt):
                self.visit(body, (*path, stmt))

    def _copy(self, copy: Copy, parent: Seq, position: int, path: tuple[For | If, ...]) -> None:
        if copy.src.buffer.scope is not Scope.GLOBAL or copy.dst.buffer.scope is not Scope.SHARED:
            return
        fills = self._fills(copy)
        mine = next((each for each in fills if copy in each.copies), None)
        reason = self._tile_reason(copy, fills)
        for part in () if reason or mine is None else mine.copies:
            reason = reason or self._source_reason(part, path) or self._can_load(part)
        if reason or mine is None:
            self.refused.append((copy, reason))
            return
        after = {inner: child for child in mine.behind for inner in walk(child)}
        using = sorted({after[reader] for reader in mine.readers}, key=parent.body.index)
        others = tuple(self._parents[each.copies[0]] for each in fills if each is not mine)
        made = LoadGroup((copy,), parent, path, using[0], using[-1], mine.readers, self._scalars, others)
        self._found.append(made)

    def _fills(self, copy: Copy) -> list[_Fill]:
        """The fills of the tile of a copy, one in each sequence at most."""
        written = self._writers[copy.dst.buffer.storage]
        if written == [copy]:
            return [self._fill(written)]
        sequences: dict[Seq, list[Stmt]] = {}
        for stmt in written:
            if isinstance(stmt, Copy) and stmt.src.buffer.scope is Scope.GLOBAL and stmt in self._parents:
                sequences.setdefault(self._parents[stmt], []).append(stmt)
        return [self._fill(stmts) for stmts in sequences.values() if _fill_whole([s.dst for s in _copies(stmts)])]

    def _fill(self, copies: Sequence[Stmt]) -> _Fill:
        """What copies of one sequence fill."""
        (storage,) = {copy.dst.buffer.storage for copy in _copies(copies)}
        body, written = self._parents[copies[0]].body, set(self._writers[storage])
        behind: list[Stmt] = []
        for stmt in body[max(map(body.index, copies)) + 1 :]:
            if not written.isdisjoint(walk(stmt)):
                break
            behind.append(stmt)
        inside = {inner for stmt in behind for inner in walk(stmt)}
        return _Fill(_copies(copies), tuple(behind), tuple(s for s in self._touching[storage] if s in inside))

    def _tile_reason(self, copy: Copy, fills: Sequence[_Fill]) -> str:
        """Why a producer cannot fill the tile; empty if it can."""
        tile = copy.dst.buffer
        written = self._writers[tile.storage]
        readers = [s for s in self._touching[tile.storage] if s not in written]
        if tile.storage in self._viewed:
            return f"'{tile.name}' has views"
        alone = written == [copy] or not any(copy in each.copies for each in fills)
        if alone and not is_whole(copy.dst) and not all(_reads_within(each, copy.dst) for each in readers):
            return f"'{tile.name}' is not filled as a whole"
        if sum(len(each.copies) for each in fills) < len(written):
            return _in_several_places(tile)
        if not readers:
            return f"nothing reads '{tile.name}'"
        if sum(len(each.readers) for each in fills) < len(readers) or not all(each.readers for each in fills):
            return f"'{tile.name}' is also read elsewhere than after the copy"
        return ""

    def _source_reason(self, copy: Copy, path: tuple[For | If, ...]) -> str:
        """Why a producer cannot compute the source or the control flow around; empty if it can."""
        source = copy.src.buffer
        if source.storage in self._writers:
            return f"the kernel also writes '{source.name}'"
        if source.storage in self._nonzero_safe:
            return f"'{source.name}' does not read 0 out of bounds"
        needed = [*copy.source_indices]
        for step in path:
            if isinstance(step, If):
                needed.append(step.condition)
                continue
            needed += [step.start, step.stop]
            if jumps(step.body):
                return "a loop around it has a break or continue in the middle of an iteration"
        all_uniform = all(map(self._scalars.is_uniform, needed))
        return "" if all_uniform else "what it copies depends on what the block computes"


def _copies(statements: Iterable[Stmt]) -> tuple[Copy, ...]:
    return tuple(stmt for stmt in statements if isinstance(stmt, Copy))


def _in_several_places(tile: Buffer) -> str:
    return f"'{tile.name}' is written in several places"


def _joined(groups: Sequence[LoadGroup]) -> LoadGroup:
    """One group of the copies of several with the same parent, of which the first is read first."""
    place = groups[0].parent.body.index
    last = max((load_group.last for load_group in groups), key=place)
    readers = tuple(dict.fromkeys(reader for load_group in groups for reader in load_group.readers))
    copies = tuple(sorted((copy for load_group in groups for copy in load_group.copies), key=place))
    return dataclasses.replace(groups[0], copies=copies, last=last, readers=readers)


def _is_small_within(inner: LoadGroup, outer: LoadGroup) -> bool:
    """Whether a group is small, and all its readers run while the tiles of another one are in use."""
    if inner.bytes > _SMALL_BYTES or inner.parent is not outer.parent:
        return False
    place = inner.parent.body.index
    return place(outer.first) < place(inner.first) and place(inner.last) <= place(outer.last)


def _computes_operand_of(some: LoadGroup, others: LoadGroup) -> bool:
    """Whether threads compute a fragment from tiles for nothing but the gemm of others, which so needs them all."""
    loop, gemm, body = some.first, others.first, some.parent.body
    if some.parent is not others.parent or some.last is not loop or others.last is not gemm:
        return False
    if not isinstance(loop, ParallelLoop) or not isinstance(gemm, Gemm) or body.index(loop) + 1 != body.index(gemm):
        return False
    operands = {region.buffer for region in (gemm.a, gemm.b)}
    written = {buffer for stmt in walk(loop) for buffer in written_buffers(stmt)}
    return any(buffer.scope is Scope.FRAGMENT for buffer in operands & written)


def _reads_within(stmt: Stmt, filled: Region) -> bool:
    """Whether a gemm reads no more of a tile than the filled region, both from index 0."""
    if not isinstance(stmt, Gemm):
        return False
    regions = [region for region in (stmt.a, stmt.b, stmt.c) if region.buffer.storage is filled.buffer.storage]
    return all(_is_first(filled) and _is_first(r) and _is_below(r.static_extent, filled.static_extent) for r in regions)


def _fill_whole(parts: Sequence[Region]) -> bool:
    """Whether regions of a buffer divide it along one dimension."""
    shape = parts[0].buffer.static_shape
    spans = [_spans(part) for part in parts]
    if shape is None or None in spans or any(part.buffer is not parts[0].buffer for part in parts):
        return False
    whole = tuple((0, size) for size in shape)
    for axis, size in enumerate(shape):
        along = sorted(span[axis] for span in spans if span is not None)
        ends = [0, *(end for _, end in along)]
        if all(span is not None and _without(span, axis) == _without(whole, axis) for span in spans):
            return [begin for begin, _ in along] == ends[:-1] and ends[-1] == size
    return False


def _spans(region: Region) -> tuple[tuple[int, int], ...] | None:
    """Where a region begins and ends along each dimension; None if it is not constant."""
    begins = [begin for start in region.start if (begin := int_const(start)) is not None]
    if region.static_extent is None or len(begins) < len(region.start):
        return None
    return tuple((begin, begin + size) for begin, size in zip(begins, region.static_extent, strict=True))


def _without(spans: tuple[tuple[int, int], ...], axis: int) -> tuple[tuple[int, int], ...]:
    return (*spans[:axis], *spans[axis + 1 :])


def _is_first(region: Region) -> bool:
    return all(int_const(start) == 0 for start in region.start)


def _is_below(some: tuple[int, ...] | None, all_of_it: tuple[int, ...] | None) -> bool:
    return some is not None and all_of_it is not None and all(a <= b for a, b in zip(some, all_of_it, strict=True))


def _names(expr: Expr, variables: set[Var]) -> bool:
    return any(isinstance(node, Var) and node in variables for node in walk_expr(expr))
