"""Infers layouts: the distribution of fragments and parallel loops over threads, and layouts of shared tiles.

Takes a tile-level function and the lowerings of its operators, gives the function with `ParallelLoop.layout`,
`LaunchPlan.fragments` and `LaunchPlan.shared_layouts`. The body of a thread group is distributed over its threads as if
they were a block; layouts of shared tiles are common to all groups. Invariant: the threads that execute an access to a
fragment hold the element, and a store writes all replicas; accesses with conflicting layouts go through shared memory,
with a note in the plan.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Hashable, Iterable, Iterator

import tilelang.layout.explain as explain  # "from" would first ask the package, whose finder looks for similar names
from tilelang.analysis.accesses import Access
from tilelang.analysis.asynchronous_stores import asynchronous_store
from tilelang.analysis.divergence import divergence
from tilelang.analysis.fixed_layouts import fixed_layouts, viewed_tiles
from tilelang.analysis.memory_patterns import MemoryPattern, best_vector, contiguous_variable, patterns
from tilelang.analysis.parallel_legality import parallel_legality
from tilelang.analysis.sampled_accesses import traffic_ratio
from tilelang.analysis.thread_groups import ThreadGroups
from tilelang.analysis.tile_uses import NestUse, TileUses, static_extents, tile_uses
from tilelang.errors import CompilerBug, Loc, Note, ProgramError, warn
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, Launch, ParallelLoop, Stmt, TileOp
from tilelang.ir.visit import Rewriter, walk
from tilelang.layout.blocked import LINE_BYTES, blocked, row_variants
from tilelang.layout.boxes import ALIGNMENT
from tilelang.layout.constraints import AccessLayout, Alias, Constraint, FixedLayout, LayoutChoice, Reason, SharedLayout
from tilelang.layout.layout import Layout
from tilelang.layout.propagate import layout_of_view, run_length, vectorized
from tilelang.layout.solve import Conflict, Solution, solve
from tilelang.layout.thread_values import Fragment, over_threads, replicated
from tilelang.lowering.lowering import LoweringContext, Lowerings, chosen_lowering
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.passes.tile.demote_fragments import view_maps, with_scopes
from tilelang.transforms.convert_layouts import cost_in_bytes, insert_conversions, interchanged, replaced
from tilelang.transforms.mask_nests import masked_over_fragment
from tilelang.transforms.shared_layouts import SharedLayoutChooser

_ROUNDS = 8  # conversions may require further ones; either few rounds suffice or it does not terminate
_STAGING_GAIN = 3.0  # least factor by which staging in shared memory must reduce global memory traffic
_STAGING_ELEMENTS = 1024  # smallest tile for which staging is worth its barriers


def infer_layouts(lowerings: Lowerings, *, by_bytes: bool = False) -> Pass:
    """The pass for a target's table of lowerings, with conversions compared by their bytes, or by their elements."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        return with_body(func, _Launches(func, context, lowerings, by_bytes).visit(func.body))

    return Pass(
        "infer_layouts", run, Level.TILE, Level.TILE,
        requires=(Property.LOWERINGS_CHOSEN, Property.PARALLEL_LOOPS_FLAT, Property.FRAGMENTS_DISTRIBUTABLE),
        establishes=(Property.LAYOUTS_INFERRED,),
    )


class _Launches(Rewriter):
    def __init__(self, func: PrimFunc, context: PassContext, lowerings: Lowerings, by_bytes: bool) -> None:
        self._func, self._context, self._lowerings, self._by_bytes = func, context, lowerings, by_bytes

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Launch):
            return self.rebuild_stmt(node)
        uses = tile_uses(self._func, node, (Scope.FRAGMENT,))
        launch = _interchanged(node, uses)
        notes: list[Note] = []
        for _ in range(_ROUNDS):
            if launch is not node:
                uses = tile_uses(self._func, launch, (Scope.FRAGMENT,))
            inference = _Inference(launch, uses, self._context, self._lowerings, self._by_bytes)
            found: list[Note] = []
            conversions = inference.conversions(found)
            if inference.refused:
                launch = with_scopes(launch, inference.refused)
                continue
            if inference.masked:
                launch = dataclasses.replace(launch, body=replaced(launch.body, inference.masked))
                continue
            notes += found
            if not conversions:
                return inference.with_layouts(notes)
            launch = insert_conversions(launch, conversions, uses)
        raise CompilerBug("infer_layouts: layout conversions do not converge")


def _interchanged(launch: Launch, uses: TileUses) -> Launch:
    """The launch with parallel nests interchanged, where legal, so that the contiguous dimension is the last."""
    new: dict[ParallelLoop, ParallelLoop] = {}
    for nest, accessed in _accesses_of(uses).items():
        if len(nest.vars) == 1 or nest.layout is not None:
            continue
        var = contiguous_variable(patterns(accessed, nest.vars, uses.domain), nest.vars)
        if var is None or var is nest.vars[-1]:
            continue
        if not parallel_legality(nest, uses.nests[nest], _always).reason:
            others = [axis for axis, other in enumerate(nest.vars) if other is not var]
            new[nest] = interchanged(nest, [*others, *(set(range(len(nest.vars))) - set(others))])
    return dataclasses.replace(launch, body=replaced(launch.body, new)) if new else launch


def _always(_: Buffer) -> bool:
    """Conservative liveness: all contents are live after a loop."""
    return True


def _accesses_of(uses: TileUses) -> dict[ParallelLoop, list[Access]]:
    """The accesses in each nest."""
    found: dict[ParallelLoop, list[Access]] = {nest: [] for nest in uses.nests}
    for access in uses.found.all:
        for loop in access.context.loops():
            if isinstance(loop, ParallelLoop) and loop in found:
                found[loop].append(access)
    return found


class _Inference:
    """One round: collects the constraints of a launch and solves them.

    Attributes:
        refused: Fragments that cannot be distributed with all of their views, with the reason.
        masked: Nests over parts of fragments, and their replacements masked over the whole fragments.
    """

    def __init__(self, launch: Launch, uses: TileUses, context: PassContext, table: Lowerings, by_bytes: bool) -> None:
        self._launch, self._lowerings, self._by_bytes = launch, table, by_bytes
        self._groups, self._divergence = ThreadGroups(launch), divergence(launch)
        self._context = LoweringContext(context.target, context.options, launch.num_threads)
        self._lanes = context.target.machine.warp_size
        self._fixed = fixed_layouts(launch)  # layouts of tiles that are fixed already
        self._uses = uses
        self._of_nest = _accesses_of(uses)
        self._patterns: dict[ParallelLoop, list[MemoryPattern]] = {
            nest: patterns(found, nest.vars, self._uses.domain) for nest, found in self._of_nest.items()
        }
        self._best: dict[ParallelLoop, Fragment] = {}  # preferred layouts of nests
        self._variants: dict[ParallelLoop, tuple[Fragment, ...]] = {}  # alternatives for nests that access no fragment
        self._view_of: dict[Buffer, Alias] = {}
        self.masked: dict[ParallelLoop, ParallelLoop] = {}
        self._row_layouts: dict[ParallelLoop, Fragment] = {}  # alternatives with all threads along rows
        self._users: dict[int, Stmt] = {}  # the statement of each constraint
        self._constraints: list[Constraint] = []
        for constraint, user in self._collect():
            self._constraints.append(constraint)
            if user is not None:
                self._users[id(constraint)] = user
        self._solution = solve(self._constraints)
        if self._row_layouts and self._converted_bytes(self._solution):
            # all threads along rows, so that values common to rows may be per-thread
            other = solve([self._with_long_rows(c) for c in self._constraints])
            self._solution = min(self._solution, other, key=self._converted_bytes)
        unrepresentable = [buffer for buffer in self._fragments() if buffer in self._solution.unrepresentable]
        self.refused = dict.fromkeys(unrepresentable, "no layout fits all of its views")

    # -- constraints ----------------------------------------------------------------------------------------
    def _collect(self) -> Iterator[tuple[Constraint, Stmt | None]]:
        """The constraints, those that cannot be converted first, each with the statement to convert at."""
        for alias in self._views():
            yield alias, None
        for constraint in (*self._named_by_scalars(), *self._annotated(), *self._requested_by_loops()):
            yield constraint, None
        operators = [stmt for stmt in walk(self._launch.body) if isinstance(stmt, TileOp)]
        requested = [(constraint, op) for op in operators for constraint in self._requested_by(op)]
        fixed_results = [isinstance(c, FixedLayout) and _writes(op, c.var) for c, op in requested]
        yield from (pair for pair, fixed in zip(requested, fixed_results, strict=True) if fixed)
        yield from (pair for pair, fixed in zip(requested, fixed_results, strict=True) if not fixed)
        for buffer, of in self._uses.of.items():
            for use in of.nests:
                if use.map is not None and static_extents(use.nest) is not None:
                    yield self._access_layout(buffer, use), use.nest
        for nest in self._uses.nests:
            preference = self._preference(nest)
            if preference is not None:
                yield preference, None
        for buffer in self._fragments():
            shape = buffer.static_shape or ()
            size = buffer.dtype.storage_bytes
            layout = blocked(shape, self._holders(buffer), warp_size=self._lanes, bytes_per_element=size)
            yield LayoutChoice(buffer, (layout,), Reason("no statement", buffer.loc), -1), None

    def _access_layout(self, buffer: Buffer, use: NestUse) -> AccessLayout:
        assert use.map is not None
        reason = Reason("T.Parallel", use.access.loc)
        size = buffer.dtype.storage_bytes if self._by_bytes else 1
        return AccessLayout(buffer, use.nest, use.map.map, reason, use.access.write, use.map.free, size)

    def _fragments(self) -> list[Buffer]:
        allocated = (stmt.buffer for stmt in walk(self._launch.body) if isinstance(stmt, Alloc))
        return [buffer for buffer in allocated if buffer.scope is Scope.FRAGMENT]

    def _views(self) -> Iterator[Alias]:
        for buffer in self._fragments():
            if buffer.view_of is not None:
                maps = view_maps(buffer)
                if maps is None:
                    raise CompilerBug(f"'{buffer.name}': a view of a fragment without a digit map")
                self._view_of[buffer] = Alias(buffer, buffer.storage, *maps)
                yield self._view_of[buffer]

    def _named_by_scalars(self) -> Iterator[FixedLayout]:
        for buffer, of in self._uses.of.items():
            if self._is_named(buffer):
                layout = replicated(buffer.static_shape or (), self._holders(buffer))
                access = (*of.scalar, *of.calls)[0]
                yield FixedLayout(buffer, layout, Reason("code outside of parallel loops accesses it", access.loc))

    def _is_named(self, buffer: Buffer) -> bool:
        """Whether scalar code accesses elements of a fragment."""
        of = self._uses.of.get(buffer)
        return of is not None and bool(of.scalar or of.calls)

    def _annotated(self) -> Iterator[FixedLayout]:
        for buffer, layout in self._launch.hints.layouts:
            if buffer.scope is not Scope.FRAGMENT or self._is_named(buffer):
                continue  # it is replicated, since scalar code accesses it
            if not isinstance(layout, Fragment):
                raise ProgramError(
                    f"T.annotate_layout: '{buffer.name}' is a fragment, but its layout is one of memory",
                    loc=buffer.loc,
                    hint="write T.Fragment(shape, lambda i, j: (thread, place)), or leave the annotation out",
                )
            with buffer.loc:
                what = f"T.annotate_layout: the layout of '{buffer.name}'"
                held = self._over_all(layout, what, self._holders(buffer), buffer.loc)
            if held is not None:
                yield FixedLayout(buffer, held, Reason(f"T.annotate_layout of '{buffer.name}'", buffer.loc))

    def _requested_by_loops(self) -> Iterator[FixedLayout]:
        for nest in self._uses.nests:
            if nest.layout is not None:
                with nest.loc:
                    what = "T.Parallel: the layout of the loop"
                    run = self._over_all(nest.layout, what, self._threads(nest), nest.loc)
                    if nest.layout.shape != static_extents(nest):
                        raise ProgramError(
                            f"T.Parallel: the layout is for a loop of {nest.layout.shape}, this one has other extents",
                            hint="make the layout for the loop's extents",
                        )
                if run is not None:
                    yield FixedLayout(nest, run, Reason("the layout of T.Parallel", nest.loc))

    def _threads(self, stmt: Stmt) -> int:
        """Return the number of threads that execute a statement together."""
        per_thread = isinstance(stmt, ParallelLoop) and self._divergence.runs_per_thread(stmt)
        return 1 if per_thread else self._groups.around(stmt).count

    def _holders(self, buffer: Buffer) -> int:
        """The number of threads that hold a fragment: those of the group that uses it, or all."""
        return (self._groups.only_user(buffer) or self._groups.block).count

    def _over_all(self, layout: Fragment, what: str, threads: int, loc: Loc) -> Fragment | None:
        """A user's layout extended to all threads: additional ones hold replicas or padding.

        None if they would hold elements of others, with a warning: then the compiler chooses a layout.

        Raises:
            ProgramError: It has more threads than there are.
        """
        found = over_threads(layout, threads)
        who = "the kernel" if threads == self._groups.block.count else "the group that uses it"
        text = f"{what} is for {layout.threads} threads, but {who} has {threads}"
        hint = f"spread it over {threads} threads, with copies if there are fewer elements"
        if found is None and layout.threads > threads:
            raise ProgramError(text, hint=hint)
        if found is None:
            warn(f"{text}: the compiler chooses another", loc, hint=hint)
        return found

    def _requested_by(self, op: TileOp) -> list[Constraint]:
        with op.loc:
            context = dataclasses.replace(self._context, threads=self._threads(op), shared_layouts=self._fixed)
            row, plan = chosen_lowering(self._lowerings, op)
            requested = list(row.constrain(op, plan, context))
        for request in requested:
            if isinstance(request, SharedLayout) and request.required and isinstance(request.var, Buffer):
                self._fixed.setdefault(request.var, request.layout)  # for operators that support others, too
        return requested

    def _preference(self, nest: ParallelLoop) -> LayoutChoice | None:
        """A coalesced layout of a nest, with vectors as wide as its memory accesses allow."""
        extents = static_extents(nest)
        if extents is None:
            return None
        found = self._patterns[nest]
        vector = self._vector(nest, extents[-1])
        threads = self._threads(nest)
        late = asynchronous_store(nest) is not None
        iterations_per_thread = math.prod(extents) // threads  # iterations per thread, if all have some
        while nest.coalesced_width is None and vector > max(1, iterations_per_thread):
            vector //= 2
        size = max((pattern.bytes for pattern in found if pattern.widths), default=4)
        holds = any(access.buffer.scope is Scope.FRAGMENT for access in self._of_nest[nest])
        # one line of a row per group of threads: then each thread has few rows, and waits for few row indices
        row = LINE_BYTES // (vector * size) if late else None
        layout_with = functools.partial(blocked, extents, threads, warp_size=self._lanes, bytes_per_element=size)
        layout = layout_with(vector, copies=holds and not late, row_threads=row)
        self._best[nest] = layout
        if holds and len(extents) > 1:
            short = max(1, math.gcd(vector, extents[-1] // threads))
            rows = layout_with(short, row_threads=threads)
            if rows != layout and rows.values <= layout.values:
                self._row_layouts[nest] = rows
        if not holds and not late and nest.layout is None:
            self._variants[nest] = row_variants(extents, threads, vector, warp_size=self._lanes, bytes_per_element=size)
        count, last = math.prod(extents), nest.vars[-1]
        traffic = sum(count * p.bytes * (8 if p.is_global else 1) // p.runs.get(last, 1) for p in found)
        return LayoutChoice(nest, (layout,), Reason("T.Parallel", nest.loc), traffic, vector)

    def _vector(self, nest: ParallelLoop, run: int) -> int:
        if nest.coalesced_width is not None:
            return math.gcd(nest.coalesced_width, run)
        return best_vector(self._patterns[nest], nest.vars[-1], run)

    def _with_long_rows(self, constraint: Constraint) -> Constraint:
        if isinstance(constraint, LayoutChoice) and constraint.var in self._row_layouts:
            return dataclasses.replace(constraint, candidates=(self._row_layouts[constraint.var],))
        return constraint

    def _converted_bytes(self, solution: Solution) -> int:
        """Bytes of the fragments that a solution converts through shared memory."""
        variables = {c.constraint.var for c in solution.conflicts if not self._is_replicated(c, solution)}
        return sum(cost_in_bytes(var) for var in variables if isinstance(var, Buffer))

    # -- conflicts ------------------------------------------------------------------------------------------
    def conversions(self, notes: list[Note]) -> dict[Stmt, list[Buffer]]:
        """The fragments to convert, by statement; their cost is noted."""
        found: dict[Stmt, list[Buffer]] = {}
        for conflict in self._solution.conflicts if not self.refused else ():
            constraint = conflict.constraint
            user = self._users.get(id(constraint))
            buffer = constraint.var
            if user is None or not isinstance(buffer, Buffer):
                raise explain.layout_conflict(conflict)
            if self._is_replicated(conflict, self._solution) or buffer in found.get(user, ()):
                continue
            masked = self._masked(user, buffer)
            if masked is not None and isinstance(user, ParallelLoop):
                self.masked.setdefault(user, masked)
                continue
            if len(self._names_in(user, buffer)) > 1:
                self.refused[buffer.storage] = "a statement uses it by two names, and needs another layout"
                continue
            if self._fixes_two_layouts(user, buffer):
                raise explain.layout_conflict(conflict)
            found.setdefault(user, []).append(buffer)
            text = explain.describe_conversion(buffer.name, conflict, cost_in_bytes(buffer))
            notes.append(Note(text, constraint.reason.loc))
        return found if found or self.refused or self.masked else self._staged_fragments(notes)

    def _staged_fragments(self, notes: list[Note]) -> dict[Stmt, list[Buffer]]:
        """The fragments to stage in shared memory for a loop whose accesses to global memory would not coalesce."""
        found: dict[Stmt, list[Buffer]] = {}
        budget = self._shared_budget()
        for nest, best in self._best.items():
            layout = self._solution.layouts.get(nest)
            accesses = self._of_nest[nest]
            held = dict.fromkeys(a.buffer for a in accesses if a.buffer.scope is Scope.FRAGMENT)
            far = [a for a in accesses if a.buffer.scope is Scope.GLOBAL and a.extent is None]
            if layout is None or not held or not far or nest.layout is not None:
                continue
            if math.prod(layout.shape) < _STAGING_ELEMENTS or not self._is_moved_by(nest, held):
                continue
            if len({buffer.storage for buffer in held}) < len(held):
                continue
            times = traffic_ratio(nest, far, layout, best, self._uses.domain, self._context.target.machine)
            needed = sum(map(cost_in_bytes, held))
            if times >= _STAGING_GAIN and needed <= budget:
                budget -= needed
                found[nest] = list(held)
                for buffer in held:
                    reason = self._solution.reasons[buffer]
                    text = explain.describe_staging(buffer.name, times, cost_in_bytes(buffer), reason)
                    notes.append(Note(text, nest.loc))
        return found

    def _shared_budget(self) -> int:
        """Bytes of shared memory for staging; pipelined tiles of warp-specialized kernels stay allocated."""
        budget = self._context.target.machine.shared_bytes
        if self._launch.plan.schedule is None:
            return budget
        tiles = (s.buffer for s in walk(self._launch.body) if isinstance(s, Alloc) and s.buffer.scope is Scope.SHARED)
        sizes = [tile.bytes or 0 for tile in tiles if tile.view_of is None]
        return budget - ALIGNMENT - sum(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)  # one of them for barriers

    def _is_moved_by(self, nest: ParallelLoop, held: Iterable[Buffer]) -> bool:
        """Whether a nest accesses each element of its fragments once, so that they are no larger than what it moves."""
        uses = [use for buffer in held for use in self._uses.of[buffer].nests if use.nest is nest]
        return all(use.map is not None and not use.map.forgets and not use.map.free for use in uses)

    def _masked(self, user: Stmt, buffer: Buffer) -> ParallelLoop | None:
        """A nest over a part of a fragment, masked over the whole fragment."""
        if not isinstance(user, ParallelLoop):
            return None
        uses = [use for use in self._uses.of[buffer].nests if use.nest is user]
        return masked_over_fragment(user, uses, self._of_nest[user])

    def _names_in(self, user: Stmt, buffer: Buffer) -> set[Buffer]:
        """The fragment and its views that a statement uses."""
        if isinstance(user, TileOp):
            named = {region.buffer for region in (*user.reads(), *user.writes())}
        else:
            assert isinstance(user, ParallelLoop)
            named = {access.buffer for access in self._of_nest[user]}
        return {name for name in named if name.storage is buffer.storage}

    def _fixes_two_layouts(self, user: Stmt, buffer: Buffer) -> bool:
        """Whether one statement fixes two layouts of a fragment."""
        requests = [
            c.layout
            for c in self._constraints
            if isinstance(c, FixedLayout) and c.var is buffer and self._users.get(id(c)) is user
        ]
        return any(not requests[0].same_owners(request) for request in requests[1:])

    def _is_replicated(self, conflict: Conflict, solution: Solution) -> bool:
        """Whether all elements that are read are replicated in every thread."""
        constraint = conflict.constraint
        layout = solution.layouts.get(constraint.var)
        reads = isinstance(constraint, AccessLayout) and not constraint.writes
        return reads and layout is not None and layout.replication == layout.threads

    # -- the result -----------------------------------------------------------------------------------------
    def with_layouts(self, notes: list[Note]) -> Launch:
        """The launch with its layouts."""
        solution = self._solution
        layouts = {
            nest: vectorized(layout, self._vector(nest, run_length(layout)))
            for nest in self._uses.nests
            if (layout := solution.layouts.get(nest)) is not None
        }
        tiles = self._tiles()
        given = self._fixed_shared_layouts(tiles)
        fixed = {buffer: layout for buffer, (layout, _) in given.items()}
        chooser = SharedLayoutChooser(self._uses, layouts, fixed, self._context.target.machine)
        chooser.choose_nest_layouts({nest: others for nest, others in self._variants.items() if others})
        for buffer in tiles:
            cheapest = None if buffer in given else chooser.layout(buffer)
            if cheapest is not None:
                given[buffer] = cheapest, Reason("parallel loops access it with fewer bank conflicts", buffer.loc)
        fragments = tuple((buffer, self._as_stored(buffer)) for buffer in self._fragments())
        lines = [
            Note(explain.describe_fragment(buffer.name, layout, solution.reasons[buffer]), buffer.loc)
            for buffer, layout in fragments
        ]
        for tile, (shared, reason) in given.items():
            lines.append(Note(explain.describe_shared_tile(tile.name, shared, reason), reason.loc))
        plan = dataclasses.replace(
            self._launch.plan,
            fragments=fragments,
            shared_layouts=tuple((buffer, layout) for buffer, (layout, _) in given.items()),
            notes=(*self._launch.plan.notes, *notes, *lines),
        )
        new = {nest: dataclasses.replace(nest, layout=layout) for nest, layout in chooser.layouts.items()}
        return dataclasses.replace(self._launch, body=replaced(self._launch.body, new), plan=plan)

    def _as_stored(self, buffer: Buffer) -> Fragment:
        """The layout of a fragment; its views number the values of a thread equally."""
        if buffer.view_of is None:
            return self._solution.layouts[buffer]
        return layout_of_view(self._view_of[buffer].names, self._solution.layouts[buffer.storage])

    def _tiles(self) -> list[Buffer]:
        """The shared buffers whose layout is free: those without views."""
        allocated = [stmt.buffer for stmt in walk(self._launch.body) if isinstance(stmt, Alloc)]
        viewed = viewed_tiles(self._launch)
        return [buffer for buffer in allocated if buffer.scope is Scope.SHARED and buffer not in viewed]

    def _fixed_shared_layouts(self, tiles: list[Buffer]) -> dict[Buffer, tuple[Layout, Reason]]:
        """The layouts of shared buffers that the user or an instruction determines.

        Raises:
            LayoutConflict: An instruction requires another one than the user, or another instruction.
        """
        for needed, fixed in self._solution.unmet:
            raise explain.shared_layout_conflict(needed, fixed.reason)
        requests = dict(self._launch.hints.layouts)
        given: dict[Buffer, tuple[Layout, Reason]] = {}
        for buffer in tiles:
            request = requests.get(buffer)
            if isinstance(request, Layout):
                given[buffer] = request, Reason(f"T.annotate_layout of '{buffer.name}'", buffer.loc)
            elif buffer in self._solution.shared:
                given[buffer] = self._solution.shared[buffer], self._solution.shared_reasons[buffer]
        annotated = {name.storage for name in requests}
        for buffer, layout in fixed_layouts(self._launch).items():
            if buffer not in given and buffer.storage in annotated and buffer.scope is Scope.SHARED:
                given[buffer] = layout, Reason(f"T.annotate_layout of a view of '{buffer.storage.name}'", buffer.loc)
        return given


def _writes(op: TileOp, var: Hashable) -> bool:
    return any(region.buffer is var for region in op.writes())
