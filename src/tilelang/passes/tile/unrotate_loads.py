"""Moves loads for the next iteration of a pipelined loop into that iteration, where stages of their tiles are of use.

Takes a tile-level function, gives one in which the loads in front of such a loop and within it are one load again:

    T.copy(K[0], K_s)
    for j in T.Pipelined(n):               for j in T.Pipelined(n):
        T.gemm(Q_s, K_s, S)          =>        T.copy(K[j], K_s)
        if j + 1 < n:                          T.gemm(Q_s, K_s, S)
            T.copy(K[j + 1], K_s)              ...
        ...

A program that keeps one tile so waits for each load; the pipelines of every machine begin with a load that fills its
tile for the same iteration, and run it ahead in as many stages as fit. Invariant: what the program computes is the
same. The tile is used in the loop alone, before that load; nothing that decides what is loaded is written
meanwhile, and conditions around the load hold wherever there is a next iteration, or one that reads the tile: a load
under a condition on data, such as a mask of blocks, goes to the branch under that condition in which the tile is read.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator, Mapping, Sequence

from tilelang.analysis.thread_accesses import synchronizes
from tilelang.arith.domain import Domain, facts_after, of_function, visit_in_order, visit_inside
from tilelang.arith.prove import proves
from tilelang.arith.simplify import simplify
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Expr, Var, select
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, Bind, For, ForKind, If, Launch, Seq, Stmt
from tilelang.ir.visit import (
    Rewriter,
    defined_variables,
    loads_of,
    substitute,
    variables_of,
    walk,
    without,
    without_unused_bindings,
    written_buffers,
)
from tilelang.lowering.regions import same_region, shared_storages
from tilelang.ops.copy import Copy, is_load
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.records import record


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, lambda launch: _Loads(launch).unrotated(of_function(func)))


@record(slots=True, eq=False)
class _Load:
    """A load within a loop, or in front of it.

    Attributes:
        copy: The load.
        statement: The number of the statement of its sequence that it is, or in whose branches it stands.
        branches: The branches around it, outermost first.
        values: The values of the names that are bound in front of it in that sequence.
    """

    copy: Copy
    statement: int
    branches: tuple[If, ...]
    values: Mapping[Var, Expr]


class _Loads:
    """The loads of a launch."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._touching: dict[Buffer, list[Stmt]] = {}
        self._viewed: set[Buffer] = set()
        self._notes: list[Note] = []
        for stmt in walk(launch.body):
            for storage in set(shared_storages(stmt)):
                self._touching.setdefault(storage, []).append(stmt)
            if isinstance(stmt, Alloc) and stmt.buffer.view_of is not None:
                self._viewed.add(stmt.buffer.storage)

    def unrotated(self, domain: Domain) -> Launch:
        """The launch with loads in the iterations that read them; `domain` has the facts around it."""
        made = self._visit(self._launch, domain)
        if made is self._launch or not isinstance(made, Launch):
            return self._launch
        return dataclasses.replace(made, plan=dataclasses.replace(made.plan, notes=(*made.plan.notes, *self._notes)))

    def _visit(self, node: Stmt, domain: Domain) -> Stmt:
        if not isinstance(node, Seq):
            return visit_inside(node, domain, self._visit)
        node = visit_in_order(node, domain, self._visit)
        statements = flat_statements(node)
        for stmt in tuple(statements):
            if isinstance(stmt, For) and _is_pipelined(stmt):
                position = statements.index(stmt)
                statements[: position + 1] = self._with_loop(statements[:position], stmt, domain)
        same = statements == flat_statements(node)
        return node if same else Seq(tuple(statements), loc=node.loc)

    def _with_loop(self, before: list[Stmt], loop: For, domain: Domain) -> list[Stmt]:
        """The statements in front of a loop, and the loop."""
        body = flat_statements(loop.body)
        firsts, loads = list(_loads(before)), list(_loads(body))
        if not firsts or not loads or any(map(synchronizes, walk(loop))):
            return [*before, loop]
        for stmt in before:
            domain = facts_after(stmt, domain)
        moved: dict[Copy, tuple[Copy, If | None]] = {}
        dropped: set[Stmt] = set()
        for tile in dict.fromkeys(load.copy.dst.buffer for load in loads):
            rotation = _Rotation(loop, before, body, domain)
            pairs, users = self._pairs(tile, firsts, body, loads)
            made = {load.copy: rotation.in_its_iteration(first, load, users) for first, load in pairs}
            if made and None not in made.values():
                moved |= {old: new for old, new in made.items() if new is not None}
                dropped |= {*made, *(first.copy for first, _ in pairs)}
        if not moved:
            return [*before, loop]
        names = dict.fromkeys(f"'{new.dst.buffer.name}'" for new, _ in moved.values())
        is_loaded, reads = ("is loaded", "reads it") if len(names) == 1 else ("are loaded", "reads them")
        where = f"in the iteration that {reads}, not in the one before"
        self._notes.append(Note(f"T.Pipelined: {' and '.join(names)} {is_loaded} {where}", loop.loc))
        around = {branch for load in (*firsts, *loads) if load.copy in dropped for branch in load.branches}
        in_branches: dict[If, list[Copy]] = {}
        for new, branch in moved.values():
            if branch is not None:
                in_branches.setdefault(branch, []).append(new)
        emptied = map(_WithLoads(in_branches).visit, _without_copies(body, dropped, around))
        parts = (*(new for new, branch in moved.values() if branch is None), *(s for s in emptied if s is not None))
        made_body = without_unused_bindings(Seq(parts, loc=loop.body.loc), _names(loop.body))
        return [*_without_copies(before, dropped, around), dataclasses.replace(loop, body=made_body)]

    def _pairs(
        self, tile: Buffer, firsts: Sequence[_Load], body: Sequence[Stmt], loads: Sequence[_Load]
    ) -> tuple[list[tuple[_Load, _Load]], list[Stmt]]:
        """The loads of a tile in front of a loop, each with the last one of the same part within, and its other uses.

        There are none if it is used elsewhere than in the loop before these loads.
        """
        pairs: list[tuple[_Load, _Load]] = []
        for first in firsts:
            alike = [load for load in loads if load.copy.dst.buffer is tile and _are_alike(first.copy, load.copy)]
            pairs += [(first, load) for load in alike[-1:]]
        ours: set[Stmt] = {each.copy for pair in pairs for each in pair}
        others = [stmt for stmt in self._touching[tile.storage] if stmt not in ours]
        ahead = {stmt for each in body[: min((load.statement for _, load in pairs), default=0)] for stmt in walk(each)}
        alone = others and ahead.issuperset(others) and len(ours) == 2 * len(pairs)
        return (pairs, others) if alone and tile.storage not in self._viewed else ([], [])


@record(slots=True, eq=False)
class _Rotation:
    """A loop and its statements, with the statements in front of it in its sequence, and the facts there."""

    loop: For
    before: Sequence[Stmt]
    body: Sequence[Stmt]
    domain: Domain

    def in_its_iteration(self, first: _Load, load: _Load, users: Sequence[Stmt]) -> tuple[Copy, If | None] | None:
        """A load in the iteration that reads its tile, the first of which reads that of `first`; None if unproven.

        With it, the branch at whose beginning it goes; None for that of the iteration.
        """
        var, step = self.loop.var, self.loop.step
        known = {name: value for name, value in first.values.items() if self._keeps(value, self._written(0))}
        written = self._written(first.statement)
        inner = {name for stmt in walk(self.loop.body) for name in defined_variables(stmt)}
        inner |= first.values.keys() - _bound(self.before[: first.statement]).keys()
        indices = [substitute(index, load.values) for index in load.copy.source_indices]
        conditions = [substitute(branch.condition, load.values) for branch in load.branches]
        begins = [substitute(index, first.values if first.branches else {}) for index in first.copy.source_indices]
        at_first = [substitute(branch.condition, first.values) for branch in first.branches]
        runs = self.loop.start < self.loop.stop if step > 0 else self.loop.start > self.loop.stop
        before = self.domain.assume(runs)
        deciding = [*indices, *conditions, *begins, *at_first]
        if load.copy.src.buffer.storage in written or not all(self._keeps(each, written) for each in deciding):
            return None
        if any(not inner.isdisjoint(variables_of(each)) for each in deciding):
            return None
        later = self.domain.with_loop(var, self.loop.start + step, self.loop.stop, step)
        conditions = [substitute(each, {var: var - step}) for each in conditions]
        branch = None
        if not all(proves(each, before) for each in at_first) or not all(proves(each, later) for each in conditions):
            branch = self._using_branch(users, at_first, conditions, before, later, written)
            if branch is None:
                return None
        inside = self.domain.with_loop(var, self.loop.start, self.loop.stop, step)
        made: list[Expr] = []
        for initial, index in zip(begins, indices, strict=True):
            begin = substitute(index, {var: self.loop.start - step})
            index = simplify(substitute(index, {var: var - step}), inside)
            both = (simplify(substitute(each, known), self.domain) for each in (initial, begin))
            if not proves(operator.eq(*both), self.domain):
                if loads_of(initial) or loads_of(index):
                    return None
                index = select(var == self.loop.start, initial, index)
            made.append(index)
        rank = len(load.copy.src.start)
        source = Region(load.copy.src.buffer, tuple(made[:rank]), tuple(made[rank:]))
        return dataclasses.replace(load.copy, src=source), branch

    def _using_branch(
        self,
        users: Sequence[Stmt],
        at_first: Sequence[Expr],
        conditions: Sequence[Expr],
        first: Domain,
        later: Domain,
        written: set[Buffer],
    ) -> If | None:
        """The branch around all other uses whose conditions imply those of a load; None if there is none.

        Args:
            users: All other statements that use the tile.
            at_first: The conditions of the load in front of the loop.
            conditions: Those of the load for an iteration, in that iteration.
            first: The facts in front of the loop where it has an iteration.
            later: The facts in all iterations but the first.
            written: What the loop writes, and the statements between the load in front of it and the loop.
        """
        start, statements, bound = {self.loop.var: self.loop.start}, list(self.body), dict[Var, Expr]()
        while len(using := [s for s in statements if not set(users).isdisjoint(walk(s))]) == 1:
            branch = using[0]
            if not isinstance(branch, If) or branch.else_body is not None:
                return None
            bound = _bound(statements[: statements.index(branch)], bound)
            condition = substitute(branch.condition, bound)
            if self._keeps(condition, written):  # others hold at different times
                later = later.assume(simplify(condition, later), momentary=True)
                first = first.assume(simplify(substitute(condition, start), first), momentary=True)
            if all(proves(simplify(each, later), later) for each in conditions):
                if all(proves(simplify(each, first), first) for each in at_first):
                    return branch
            statements = flat_statements(branch.then_body)
        return None

    def _written(self, position: int) -> set[Buffer]:
        """What the loop writes, and the statements in front of it from a position on."""
        around = (*self.before[position:], self.loop)
        return {buffer.storage for each in around for stmt in walk(each) for buffer in written_buffers(stmt)}

    def _keeps(self, value: Expr, written: set[Buffer]) -> bool:
        """Whether a value is the same in front of the loop and in its iterations."""
        storages = {load.buffer.storage for load in loads_of(value)}
        return storages.isdisjoint(written)


def _is_pipelined(loop: For) -> bool:
    """Whether a loop is to be pipelined with stages that the compiler assigns."""
    spec = loop.pipeline
    pipelined = loop.kind is ForKind.PIPELINED and spec is not None and spec.num_stages > 0
    return pipelined and spec is not None and not spec.places_statements


def _loads(body: Sequence[Stmt]) -> Iterator[_Load]:
    """The loads from global to shared memory in the statements of a loop, and in branches of it."""
    values: dict[Var, Expr] = {}
    for number, stmt in enumerate(body):
        yield from _loads_of(stmt, number, (), values)
        values |= _bound([stmt], values)


def _loads_of(stmt: Stmt, number: int, branches: tuple[If, ...], values: Mapping[Var, Expr]) -> Iterator[_Load]:
    if is_load(stmt):
        yield _Load(stmt, number, branches, dict(values))
    elif isinstance(stmt, If) and stmt.else_body is None:
        inner = flat_statements(stmt.then_body)
        for position, each in enumerate(inner):
            yield from _loads_of(each, number, (*branches, stmt), {**values, **_bound(inner[:position], values)})


def _bound(statements: Sequence[Stmt], values: Mapping[Var, Expr] | None = None) -> dict[Var, Expr]:
    """The values of the names that statements bind, without names that they or those before them bind."""
    found = dict(values or {})
    for stmt in statements:
        if isinstance(stmt, Bind):
            found[stmt.var] = substitute(stmt.value, found)
    return found


def _are_alike(first: Copy, second: Copy) -> bool:
    """Whether two synchronous loads of the same part of a tile differ in the place of their source alone."""
    if not type(first) is type(second) is Copy:
        return False  # the place of `T.im2col` is not that of its source
    names = [field.name for field in dataclasses.fields(Copy) if field.name not in ("src", "dst", "loc")]
    same = all(_are_equal(getattr(first, name), getattr(second, name)) for name in names)
    synchronous = first.barrier is None and not first.is_async
    return same and synchronous and first.src.buffer is second.src.buffer and same_region(first.dst, second.dst)


def _are_equal(first: object, second: object) -> bool:
    """Whether two fields have one value wherever they stand; an expression that is computed may have several."""
    return first is second if isinstance(first, Expr) or isinstance(second, Expr) else first == second


class _WithLoads(Rewriter):
    """Puts loads at the beginning of branches."""

    def __init__(self, loads: Mapping[If, Sequence[Copy]]) -> None:
        self._loads = loads

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, If) or node not in self._loads:
            return self.rebuild_stmt(node)
        body = (*self._loads[node], *flat_statements(node.then_body))
        return dataclasses.replace(node, then_body=Seq(body, loc=node.then_body.loc))


def _without_copies(body: Sequence[Stmt], copies: set[Stmt], around: set[If]) -> list[Stmt]:
    """The statements of a sequence without moved copies, and without branches around them that hold nothing else."""
    left: list[Stmt] = []
    for stmt in body:
        if stmt in copies:
            continue
        if stmt in around:
            stmt = without_unused_bindings(without(stmt, copies), _names(stmt))
            if all(isinstance(each, Seq | If) for each in walk(stmt)):
                continue
        left.append(stmt)
    return left


def _names(stmt: Stmt) -> set[Var]:
    return {var for each in walk(stmt) if isinstance(each, Bind) for var in defined_variables(each)}


PASS = Pass(
    "unrotate_loads", _run, Level.TILE, Level.TILE,
    requires=(Property.RULES_CHECKED, Property.SUBSCRIPTS_AFFINE),
)
