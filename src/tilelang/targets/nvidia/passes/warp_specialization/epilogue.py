"""Asynchronous stores of results: through staging tiles in shared memory, which the copy engine (TMA) stores.

Takes a launch, gives its `EpilogueStore`s and the rewriter that performs them. Invariant: a staging tile is written
only when the copy engine has read its previous contents, and the kernel ends after all tiles have been read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence

from tilelang.analysis.accesses import Accesses, accesses
from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, const, int_const
from tilelang.ir.pipeline import StoreWait
from tilelang.ir.sequences import with_statements
from tilelang.ir.stmt import Alloc, Atomic, For, ForKind, If, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, walk
from tilelang.layout.boxes import PERIOD_ROWS
from tilelang.lowering.regions import axes, is_whole, slice_along, whole
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import Copy
from tilelang.ops.describe import drop_units, same_extents
from tilelang.ops.gemm import Gemm
from tilelang.records import record
from tilelang.targets.nvidia.isa.tensor_box import CHUNK_BYTES
from tilelang.targets.nvidia.passes.warp_specialization.pad_rows import SWIZZLE_SPAN, padded

ToGlobal = Copy | AtomicTile
"""What stores results in global memory, or adds them there."""

CanStore = Callable[[ToGlobal], str]
"""Why the copy engine cannot do a store from shared memory; empty if it can."""


@record(slots=True, eq=False)
class EpilogueStore:
    """One copy of results to global memory, or one atomic addition of them.

    Attributes:
        copy: The user's copy to global memory, or atomic addition.
        staging: The shared tile that the copy engine stores.
        writer: The user's copy into that tile; None where the compiler adds the tile.
        direct: What moves the same results from registers: the copy itself, or one that leaves out the user's tile;
            None where the program needs that tile.
        loops: The number of loops around the copy.
        pipelined: Whether one of these loops is pipelined.
        parts: In how many parts, one after another, the results pass through the tile; 0 if they do not, and `direct`
            stands for the copy.
        by_rows: Whether these are parts of the rows, not of the columns: where gemms write results transposed, columns
            are divided among threads.
    """

    copy: ToGlobal
    staging: Buffer
    writer: Copy | None = None
    direct: ToGlobal | None = None
    loops: int = 0
    pipelined: bool = False
    parts: int = 1
    by_rows: bool = False

    @property
    def adds(self) -> bool:
        """Whether it adds to global memory, in any order, instead of overwriting it."""
        return isinstance(self.copy, AtomicTile)


def split_into_parts(store: EpilogueStore, parts: int) -> EpilogueStore:
    """The store in `parts` parts of equally many columns, or rows; unchanged where these do not divide.

    A pipelined loop stores at once: between parts it would wait.
    """
    copy = store.direct
    if copy is None or store.pipelined or parts == 1:
        return store
    sizes = [int_const(extent) or 0 for extent in drop_units(copy.dst.extent) or (const(0, INT32),)]
    row = sizes[-1] * copy.dst.dtype.storage_bytes
    if sizes[0] % (parts * PERIOD_ROWS) if store.by_rows else row % (parts * CHUNK_BYTES):
        return store
    extents = drop_units(_part(store, copy, 0, parts).dst.extent)
    return dataclasses.replace(store, staging=_staging(copy, extents), parts=parts)


def stored_directly(launch: Launch, stores: Sequence[EpilogueStore]) -> Launch:
    """The launch with results stored from registers that pass through a tile of the program for nothing else."""
    direct = [each for each in stores if each.writer is not None and each.direct is not None and not each.pipelined]
    stage = StageEpilogue([dataclasses.replace(each, parts=0) for each in direct])
    return dataclasses.replace(launch, body=stage.visit(launch.body) or Seq((), loc=launch.loc)) if direct else launch


def has_full_rows(store: EpilogueStore, parts: int) -> bool:
    """Whether a store can be split into `parts` parts with rows that are multiples of 128 bytes."""
    columns = (store.staging.static_shape or (0,))[-1]
    return store.parts == parts and columns * store.staging.dtype.storage_bytes % SWIZZLE_SPAN == 0


def _part(store: EpilogueStore, copy: ToGlobal, number: int, parts: int) -> ToGlobal:
    """Part `number` of a copy that is split into `parts` along its last, or first, dimension beside units."""
    if parts == 1:
        return copy
    src, dst = (_slice(region, store, number, parts) for region in (_source(copy), copy.dst))
    return dataclasses.replace(copy, src=src, dst=dst)


def _source(copy: ToGlobal) -> Region:
    """The results."""
    assert isinstance(copy.src, Region)  # no scalar: by `_epilogue_store`
    return copy.src


def _slice(region: Region, store: EpilogueStore, number: int, parts: int) -> Region:
    axis = axes(region)[0 if store.by_rows else -1]
    width = (int_const(region.extent[axis]) or 0) // parts
    return slice_along(region, axis, number * width, width)


def _staging(copy: ToGlobal, extents: Sequence[Expr]) -> Buffer:
    """A staging tile for results of these extents."""
    source = _source(copy).buffer
    return padded(Buffer(f"{source.name}_staging", tuple(extents), copy.dst.dtype, Scope.SHARED, loc=source.loc))


def first_release(launch: Launch) -> Stmt | None:
    """The first statement with release semantics on global memory, if there is one."""
    for stmt in walk(launch.body):
        if isinstance(stmt, Atomic) and stmt.releases and stmt.buffer.scope is Scope.GLOBAL:
            return stmt
        if isinstance(stmt, AtomicTile) and stmt.order.releases and stmt.dst.buffer.scope is Scope.GLOBAL:
            return stmt
    return None


def find_epilogue_stores(launch: Launch, can_store: CanStore, independent_loops: int = 0) -> tuple[EpilogueStore, ...]:
    """The asynchronous stores of a launch that comes from `flatten_sequences`, in program order.

    Args:
        launch: The launch.
        can_store: What the copy engine can do.
        independent_loops: How many of the outermost loops write disjoint elements in their iterations: the loop over
            the tiles of the grid.
    """
    if first_release(launch) is not None:
        return ()  # a release would not cover stores that are still in flight
    found = accesses(launch.body)
    transposed = {s.c.buffer for s in walk(launch.body) if isinstance(s, Gemm) and s.transpose_c}
    domain = Domain().with_extents(launch.block_vars, launch.grid)
    places = _Places(launch, found)
    annotated = {buffer.storage for buffer, _ in launch.hints.layouts}
    stores = {}
    for access in found.writes:
        copy = access.stmt
        if isinstance(copy, ToGlobal) and access.buffer.scope is Scope.GLOBAL and copy in places.parents:
            facts = access.context.domain(_nonempty(copy.dst.buffer, domain))
            if not all(proves(start >= 0, facts) for start in copy.dst.start):
                continue  # TMA drops elements past the end of a tensor, but traps on those before its start
            loops = access.context.loops()
            store = _epilogue_store(copy, places, can_store, once=len(loops) <= independent_loops)
            if store is not None:
                pipelined = any(isinstance(loop, For) and loop.kind is ForKind.PIPELINED for loop in loops)
                by_rows = _source(store.direct or copy).buffer in transposed
                if store.writer is not None and store.staging in annotated:
                    store = dataclasses.replace(store, direct=None)
                stores[copy] = dataclasses.replace(store, loops=len(loops), pipelined=pipelined, by_rows=by_rows)
    return tuple(stores.values())


class _Places:
    """Where the statements of a launch stand, and what they touch.

    Attributes:
        parents: The sequence of each statement.
    """

    def __init__(self, launch: Launch, found: Accesses) -> None:
        self._touching: dict[Buffer, dict[Stmt, None]] = {}
        for access in found.all:
            self._touching.setdefault(access.buffer.storage, {})[access.stmt] = None
        self._writes = {(access.buffer.storage, access.stmt) for access in found.writes}
        self.parents = {child: stmt for stmt in walk(launch.body) if isinstance(stmt, Seq) for child in stmt.body}
        branching = [stmt for stmt in walk(launch.body) if isinstance(stmt, If)]
        self._ifs = {body: stmt for stmt in branching for body in (stmt.then_body, stmt.else_body) if body is not None}

    def others(self, copy: Stmt, buffer: Buffer, *, instead: bool, reads_only: bool) -> list[Stmt]:
        """The statements beside a copy that touch a buffer.

        Args:
            copy: The copy.
            buffer: The buffer.
            instead: Whether to leave out those that run instead of the copy, in the other branch of a condition.
            reads_only: Whether to leave out only those of them that do not write the buffer.
        """
        left: set[Stmt] = set()
        place = copy
        while instead and (around := self._ifs.get(self.parents[place])) is not None:
            other = around.else_body if self.parents[place] is around.then_body else around.then_body
            left |= set() if other is None else set(walk(other))
            if (place := around) not in self.parents:
                break
        storage = buffer.storage
        left = {s for s in left if not (reads_only and (storage, s) in self._writes)}
        return [s for s in self._touching[storage] if s is not copy and s not in left]

    def adjoin(self, first: Stmt, second: Stmt) -> bool:
        """Whether two statements follow each other directly in one sequence."""
        body = self.parents[first]
        return self.parents[second] is body and body.body.index(second) == body.body.index(first) + 1

    def follows(self, copy: Stmt, writer: Stmt) -> bool:
        """Whether a copy stands behind a writer in one sequence, or in a branch of a statement that does."""
        place, body = copy, self.parents.get(writer)
        while self.parents[place] is not body:
            if (around := self._ifs.get(self.parents[place])) is None or around not in self.parents:
                return False
            place = around
        return body is not None and body.body.index(writer) < body.body.index(place)


def _nonempty(tensor: Buffer, domain: Domain) -> Domain:
    """Adds that a tensor that TMA stores to is not empty: the host makes no tensor map of an empty one."""
    for extent in tensor.shape:
        if int_const(extent) is None:
            domain = domain.assume(extent >= 1)
    return domain


def _epilogue_store(copy: ToGlobal, places: _Places, can_store: CanStore, *, once: bool) -> EpilogueStore | None:
    """The store, if the copy engine can do it; `once` if a tile of the grid runs it at most once."""
    if not isinstance(copy.src, Region):
        return None
    source = copy.src.buffer
    if places.others(copy, copy.dst.buffer, instead=once, reads_only=False):
        return None  # nothing orders TMA stores and other accesses to the tensor
    if source.scope is Scope.FRAGMENT and copy.src.static_extent is not None and _is_fixed(copy.src):
        extents = drop_units(copy.dst.extent)
        if not extents:
            return None  # a single element has fewer bytes than TMA stores
        tile = _staging(copy, extents)
        is_refused = can_store(_async_store(copy, _valid_part(copy, tile)))
        return None if is_refused else EpilogueStore(copy, tile, direct=copy)
    if source.scope is not Scope.SHARED or not is_whole(copy.src) or source.view_of is not None:
        return None
    (writer, *others) = places.others(copy, source, instead=True, reads_only=True) or [copy]
    if others or not isinstance(writer, Copy) or not places.follows(copy, writer):
        return None
    if not is_whole(writer.dst) or writer.dst.buffer is not source or writer.src.buffer.scope is not Scope.FRAGMENT:
        return None
    if can_store(_async_store(copy, whole(source))):
        return None
    return EpilogueStore(copy, source, writer, _without_tile(copy, writer) if places.adjoin(writer, copy) else None)


def _is_fixed(region: Region) -> bool:
    """Whether a region always begins at the same element."""
    return all(int_const(start) is not None for start in region.start)


def _without_tile(copy: ToGlobal, writer: Copy) -> ToGlobal | None:
    """The copy of what a writer puts into a tile, without that tile; None if their extents differ."""
    if not is_whole(writer.src) or not same_extents(drop_units(writer.src.extent), drop_units(copy.dst.extent)):
        return None
    return dataclasses.replace(copy, src=writer.src)


def _async_store(copy: ToGlobal, results: Region) -> ToGlobal:
    return dataclasses.replace(copy, src=results, is_async=True)


def _valid_part(copy: ToGlobal, tile: Buffer) -> Region:
    """The part of a staging tile that holds results: its rows may be padded."""
    return dataclasses.replace(whole(tile), extent=tuple(drop_units(copy.dst.extent)))


class StageEpilogue(Rewriter):
    """Rewrites copies of results into asynchronous stores through staging tiles.

    The caller allocates the tiles around the statements and adds the final `StoreWait`.

    Args:
        stores: The copies to rewrite.
        independent_loops: How many of the outermost loops write disjoint elements in their iterations: the loop over
            the tiles of the grid.
        left: Loops that stay as they are, since their statements are rewritten one by one.
    """

    def __init__(
        self, stores: Sequence[EpilogueStore], independent_loops: int = 0, left: Collection[Stmt] = ()
    ) -> None:
        self._independent_loops, self._left = independent_loops, left
        self._stores = {e.copy: e for e in stores}
        self._writers = {e.writer: e for e in stores if e.writer is not None}
        self._fresh = {e.staging for e in stores} | {e.writer.dst.buffer for e in stores if e.writer is not None}

    def stmt(self, node: Stmt) -> Stmt | None:
        """Rewrites copies of results and the user's copies into staging tiles."""
        if isinstance(node, Alloc) and node.buffer in self._fresh:
            return None
        if node in self._left:
            return node
        if not isinstance(node, Seq):
            return self.rebuild_stmt(node)
        body: list[Stmt] = []
        for child in node.body:
            if (staged := self.staged(child)) is not None:
                body += staged
            elif (rewritten := self.visit(child)) is not None:
                body.append(rewritten)
        return with_statements(node, body)

    def staged(self, stmt: Stmt) -> list[Stmt] | None:
        """What stands for a copy of results, or for a user's copy into a staging tile; None for other statements."""
        if isinstance(stmt, ToGlobal) and stmt in self._stores:
            return self._staged_store(self._stores[stmt])
        if isinstance(stmt, Copy) and stmt in self._writers:
            store = self._writers[stmt]
            return [*self._acquire_staging(store), stmt] if store.parts == 1 else []
        return None

    def _staged_store(self, store: EpilogueStore) -> list[Stmt]:
        copy = store.copy
        if store.parts == 0 and store.direct is not None:
            return [store.direct]
        if store.writer is not None and store.parts == 1 or store.direct is None:
            return [_async_store(copy, whole(store.staging))]
        body: list[Stmt] = []
        for number in range(store.parts):
            part = _part(store, store.direct, number, store.parts)
            results = _valid_part(part, store.staging)
            body += [StoreWait(True, loc=copy.loc)] if number else self._acquire_staging(store)
            body += [Copy(_source(part), results, loc=copy.loc), _async_store(part, results)]
        return body

    def _acquire_staging(self, store: EpilogueStore) -> list[Stmt]:
        """Waits until the staging tile may be written again; where needed, until the tensor may be, too."""
        read = store.adds or store.loops <= self._independent_loops
        return [StoreWait(read, loc=store.copy.loc)] if store.loops else []
