"""Chooses the lowering of each tile operator, and records its name and plan on the operator.

Takes a target's table of lowerings; gives the pass. Where tiles are distributed over registers of threads and a
lowering needs operands in other scopes or dtypes, the pass inserts copies to new tiles: accumulators that are not a
whole fragment get one, an operand of another dtype is converted in one, and the epilogue store of a gemm goes through
shared memory where that makes it coalesced. Invariant: the chosen lowering is the first row of the table that accepts
the operator, and the semantics are unchanged.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tilelang.analysis.access_width import nonzero_safe
from tilelang.analysis.fixed_layouts import fixed_layouts
from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.dtypes import DType
from tilelang.errors import NoLowering, Note, warn
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Const, Expr, const, int_const, unary
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.plan import Plan
from tilelang.ir.scalar import UnaryOp
from tilelang.ir.sequences import with_location, with_statements
from tilelang.ir.stmt import Alloc, For, If, Launch, Seq, Stmt, TileOp, seq
from tilelang.ir.visit import Rewriter, walk
from tilelang.layout.constraints import SharedLayout
from tilelang.lowering.lowering import ExpandsTiles, Lowering, LoweringContext, Lowerings, PadsRows, Refusal
from tilelang.lowering.regions import is_whole, whole
from tilelang.ops.copy import Copy
from tilelang.ops.describe import drop_units
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm, matrix_extents
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.records import record

_ROW_BYTES = 16  # the widest store of a thread
_STAGED_ELEMENTS = 4096  # smallest tile for which staging in shared memory is profitable


@record
class _Answer:
    """What the lowerings of a table say of an operator.

    Attributes:
        accepted: The first that accepts it, with its plan; None if all refuse.
        refused: Those before, with the reasons.
    """

    accepted: tuple[Lowering, Plan] | None
    refused: Sequence[tuple[Lowering, Refusal]]

    @property
    def row(self) -> Lowering | None:
        """The lowering that accepts it."""
        return self.accepted[0] if self.accepted else None


def choose_lowerings(lowerings: Lowerings) -> Pass:
    """The pass for one target's table of lowerings."""

    def choose(launch: Launch, context: PassContext) -> Stmt | None:
        if not context.target.is_gpu:
            return _Choose(lowerings, context, launch).rebuild_stmt(launch)
        chosen = _ChooseForThreads(lowerings, context, launch)
        made = chosen.with_notes(chosen.rebuild_stmt(launch))
        return _ClearPadding(chosen, launch.num_threads).visit(made) if made and chosen.padded else made

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        return with_launches(func, lambda launch: choose(launch, context))

    return Pass(
        "choose_lowerings", run, Level.TILE, Level.TILE,
        requires=(
            Property.NO_LIBRARY_OPERATORS,
            Property.SUBSCRIPTS_AFFINE,
            Property.TENSOR_LAYOUTS_APPLIED,
            Property.WARPS_SPECIALIZED,
            Property.TILES_PROMOTED,
            Property.OPERATORS_UNEXPANDED,
        ),
        establishes=(Property.LOWERINGS_CHOSEN,),
    )


class _Choose(Rewriter):
    """Chooses the lowerings of one launch.

    Attributes:
        notes: What `kernel.explain()` says of the choices.
    """

    def __init__(self, lowerings: Lowerings, context: PassContext, launch: Launch) -> None:
        self._lowerings = lowerings
        self._layouts = fixed_layouts(launch)  # layouts of tiles that are fixed already
        self._is_warp_specialized = launch.plan.schedule is not None  # then shared tiles are live all the time
        self._context = LoweringContext(
            context.target,
            context.options,
            launch.num_threads,
            shared_layouts=self._layouts,
            has_producer=self._is_warp_specialized,
            nonzero_safe=nonzero_safe(launch),
        )
        self.notes: list[Note] = []

    def with_notes(self, launch: Stmt | None) -> Stmt | None:
        """The rebuilt launch with the notes in its plan."""
        if not isinstance(launch, Launch) or not self.notes:
            return launch
        notes = (*launch.plan.notes, *dict.fromkeys(self.notes))
        return dataclasses.replace(launch, plan=dataclasses.replace(launch.plan, notes=notes))

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Seq):
            return self._sequence(node)
        if isinstance(node, TileOp):
            return seq(self._replacement(node), node.loc)
        if isinstance(node, If) and node.group is not None:
            return self._group(node, node.group.count)
        return self.rebuild_stmt(node)

    def _group(self, node: If, threads: int) -> Stmt | None:
        """The body of a thread group."""
        block, self._context = self._context, dataclasses.replace(self._context, threads=threads)
        rebuilt = self.rebuild_stmt(node)
        self._context = block
        return rebuilt

    def _sequence(self, node: Seq) -> Stmt:
        """The statements, with the replacements of operators inlined, as other passes expect."""
        body: list[Stmt] = []
        for old in node.body:
            if isinstance(old, TileOp):
                with old.loc:
                    body.extend(self._replacement(old))
            else:
                new = self.visit(old)
                body.extend([] if new is None else [new])
        return with_statements(node, body)

    def _replacement(self, op: TileOp) -> list[Stmt]:
        """The operator with its lowering, and the copies around it."""
        return [with_location(s, op.loc) for s in self._statements(op)]

    def _statements(self, op: TileOp) -> list[Stmt]:
        return [self._chosen(op)]

    def _chosen(self, op: TileOp) -> TileOp:
        """The operator with the first lowering that accepts it.

        Raises:
            NoLowering: All refuse, or the table has none for it.
        """
        rows = self._lowerings.get(type(op), ())
        return self._with_lowering(op, self._asked(op, [row for row in rows if op.required_lowering in ("", row.name)]))

    def _with_lowering(self, op: TileOp, answer: _Answer) -> TileOp:
        """The operator with the lowering that accepts it.

        Raises:
            NoLowering: All refuse.
        """
        if answer.accepted is None and op.request is not None:
            requires = f"; {op.request.requires}" if op.request.requires else ""
            raise NoLowering(
                f"{op.name}: {'; '.join(refusal.reason for _, refusal in answer.refused)}",
                hint=f"write {op.request.instead}, which does it another way where it must{requires}",
            )
        if answer.accepted is None:
            reasons = tuple(Note(f"{row.name}: {refusal.reason}") for row, refusal in answer.refused)
            raise NoLowering(f"{op.name}: {self._context.target} has no lowering for it", notes=reasons)
        lowering, plan = answer.accepted
        noted = [f"no {row.name}: {refusal.reason}" for row, refusal in answer.refused if refusal.is_noted]
        self.notes.extend(Note(f"{op.name}: {text}", op.loc) for text in (*noted, plan.note) if text)
        for _, refusal in answer.refused:
            if refusal.hint:
                warn(f"{op.name}: {refusal.reason}, but by {lowering.name}", op.loc, hint=refusal.hint)
        self._record(op, lowering, plan)
        return dataclasses.replace(op, choice=lowering.name, plan=plan)

    def _record(self, op: TileOp, lowering: Lowering, plan: Plan) -> None:
        """Records what the chosen lowering implies for the operators after it."""

    def _asked(self, op: TileOp, rows: Sequence[Lowering]) -> _Answer:
        """What lowerings say of an operator, until the first accepts it."""
        refused: list[tuple[Lowering, Refusal]] = []
        for row in rows:
            answer = row.accepts(op, self._context)
            if not isinstance(answer, Refusal):
                return _Answer((row, answer), refused)
            refused.append((row, answer))
        return _Answer(None, refused)


class _ChooseForThreads(_Choose):
    """Chooses the lowerings where tiles are distributed over the registers of threads.

    Attributes:
        padded: Operands in registers whose lowering pads their rows, with the number of threads of the gemm.
    """

    def __init__(self, lowerings: Lowerings, context: PassContext, launch: Launch) -> None:
        super().__init__(lowerings, context, launch)
        self.padded: dict[Buffer, int] = {}
        self._accumulators = {op.c.buffer for op in walk(launch) if isinstance(op, Gemm)}
        self._shared_bytes = _shared_bytes(launch)

    def zeros(self, tile: Buffer) -> TileOp:
        """An operator that fills a tile with zeros."""
        return self._chosen(Fill(whole(tile), const(0, tile.dtype)))

    def _statements(self, op: TileOp) -> list[Stmt]:
        match op:
            case Gemm():
                return self._gemm(op)
            case Copy() if self._should_stage_store(op):
                return self._staged_store(op)
        return [self._chosen(op)]

    def _record(self, op: TileOp, lowering: Lowering, plan: Plan) -> None:
        """Records the layouts that a gemm's lowering requires, and operands that it pads."""
        if not isinstance(op, Gemm):
            return
        for constraint in lowering.constrain(op, plan, self._context):
            if isinstance(constraint, SharedLayout) and constraint.required and isinstance(constraint.var, Buffer):
                self._layouts.setdefault(constraint.var, constraint.layout)
        if isinstance(lowering, PadsRows) and _in_fragment(op.a) and lowering.pads_rows(op):
            self.padded[op.a.buffer] = self._context.threads

    # -- gemms ----------------------------------------------------------------------------------------------
    def _gemm(self, op: Gemm) -> list[Stmt]:
        if op.required_lowering or not all(int_const(size) for size in op.sizes):
            return [self._chosen(op)]  # unchanged; and empty tiles cannot be allocated
        before: list[Stmt] = []
        after: list[Stmt] = []
        if op.c.buffer.scope is not Scope.FRAGMENT or not is_whole(op.c):
            op = dataclasses.replace(self._with_accumulator_in_fragment(op, before, after), wait=0)
        a, b = (self._prepared_operand(r, dtype, before) for r, dtype in zip((op.a, op.b), op.operands, strict=True))
        # the compiler's own tiles may be overwritten after the gemm, so it must be complete
        op = dataclasses.replace(op, a=a, b=b, wait=op.wait if (a, b) == (op.a, op.b) else 0)
        rows = self._lowerings.get(Gemm, ())
        answer = self._asked(op, rows)
        row = answer.row
        if (row is None or isinstance(row, ExpandsTiles)) and (_in_fragment(op.a) or _in_fragment(op.b)):
            # the FMA lowering requires operands in shared memory; loops would compute with all rows in each thread
            copies: list[Stmt] = []
            a, b = (self._copied(r, r.dtype, Scope.SHARED, copies) if _in_fragment(r) else r for r in (op.a, op.b))
            shared = dataclasses.replace(op, a=a, b=b)
            other = self._asked(shared, rows)
            if row is None or other.row is not row:
                op, answer, before = shared, other, [*before, *copies]
        return [*before, self._with_lowering(op, answer), *after]

    def _with_accumulator_in_fragment(self, op: Gemm, before: list[Stmt], after: list[Stmt]) -> Gemm:
        """The gemm into a new fragment; the old accumulator is loaded unless it is cleared."""
        tile = _tile(op.c, op.c.dtype, Scope.FRAGMENT)
        before.append(Alloc(tile))
        accumulator = whole(tile)
        load = self._chosen(Copy(op.c, accumulator))
        clear = op.clear_accum
        if clear is None or (isinstance(clear, Const) and not clear.value):
            before.append(load)
        elif not isinstance(clear, Const):
            before.append(If(unary(UnaryOp.NOT, clear), load))
        after.append(self._chosen(Copy(accumulator, op.c)))
        return dataclasses.replace(op, c=accumulator)

    def _prepared_operand(self, region: Region, operand: DType, before: list[Stmt]) -> Region:
        """An operand in the dtype of the mma, and as a whole buffer if it is a fragment."""
        if region.dtype == operand and (is_whole(region) or not _in_fragment(region)):
            return region
        return self._copied(region, operand, Scope.FRAGMENT, before)

    def _copied(self, region: Region, dtype: DType, scope: Scope, before: list[Stmt]) -> Region:
        """A copy of an operand in a new tile."""
        tile = _tile(region, dtype, scope)
        before += [Alloc(tile), self._chosen(Copy(region, whole(tile)))]
        return whole(tile)

    # -- epilogue stores ------------------------------------------------------------------------------------
    def _should_stage_store(self, op: Copy) -> bool:
        """Whether the epilogue should store the result of a gemm through shared memory.

        Each thread holds pairs of neighboring elements after an mma, so that direct stores of 16-bit results are 4
        bytes wide.
        """
        src, dst = op.src, op.dst
        if src.buffer not in self._accumulators or src.buffer.scope is not Scope.FRAGMENT or op.layout is not None:
            return False
        extents = src.static_extent
        size = dst.dtype.storage_bytes
        if dst.buffer.scope is not Scope.GLOBAL or extents is None or size > 2 or op.coalesced_width is not None:
            return False
        elements = math.prod(extents)
        limit = self._context.target.machine.shared_bytes
        if elements < _STAGED_ELEMENTS or self._shared_bytes + elements * size > limit:
            return False
        return int_const(dst.extent[-1]) == extents[-1] and _has_wide_rows(dst, _ROW_BYTES // size)

    def _staged_store(self, op: Copy) -> list[Stmt]:
        """The copy through a tile in shared memory, with conversion on the way in."""
        tile = whole(_tile(op.src, op.dst.dtype, Scope.SHARED))
        if self._is_warp_specialized:
            self._shared_bytes += tile.buffer.bytes or 0
        inward, outward = Copy(op.src, tile), dataclasses.replace(op, src=tile)
        return [Alloc(tile.buffer), self._chosen(inward), self._chosen(outward)]


class _ClearPadding(Rewriter):
    """Fills padded operands with zeros at their allocation.

    Results of padding rows are discarded, but elementwise loops compute on them where that saves a predicate.
    """

    def __init__(self, chosen: _ChooseForThreads, threads: int) -> None:
        self._chosen, self._threads = chosen, threads

    def stmt(self, node: Stmt) -> Stmt | None:
        match node:
            case For() | TileOp():
                return node
            case If(group=group) if group is not None:
                around, self._threads = self._threads, group.count
                rebuilt = self.rebuild_stmt(node)
                self._threads = around
                return rebuilt
            case Seq(body=body):
                return Seq(tuple(rebuilt for old in body for rebuilt in self._with_zeros(old)), loc=node.loc)
        return self.rebuild_stmt(node)

    def _with_zeros(self, node: Stmt) -> list[Stmt]:
        rewritten = self.visit(node) or Seq((), loc=node.loc)
        if isinstance(node, Alloc) and self._chosen.padded.get(node.buffer) == self._threads:
            return [rewritten, dataclasses.replace(self._chosen.zeros(node.buffer), loc=node.loc)]
        return [rewritten]


def _in_fragment(region: Region) -> bool:
    return region.buffer.scope is Scope.FRAGMENT


def _tile(region: Region, dtype: DType, scope: Scope) -> Buffer:
    """A buffer for the elements of a region."""
    extents = matrix_extents(region) if len(drop_units(region.extent)) <= 2 else drop_units(region.extent)
    suffix = "shared" if scope is Scope.SHARED else "fragment"
    name = f"{region.buffer.name}_{suffix}"
    return Buffer(name, tuple(extents), dtype, scope, loc=region.buffer.loc)


def _has_wide_rows(region: Region, count: int) -> bool:
    """Whether rows of a region consist of aligned vectors of `count` contiguous elements."""
    buffer = region.buffer

    def multiple(expr: Expr) -> bool:
        return proves((expr % count) == 0, Domain())

    return buffer.strides is None and all(map(multiple, (region.extent[-1], region.start[-1], buffer.shape[-1])))


def _shared_bytes(launch: Launch) -> int:
    """Shared memory of a launch's tiles in bytes, with the versions that pipelines allocate."""
    stages = [loop.pipeline.num_stages for loop in walk(launch) if isinstance(loop, For) and loop.pipeline]
    tiles = [s.buffer for s in walk(launch) if isinstance(s, Alloc) and s.buffer.scope in (Scope.SHARED, Scope.BARRIER)]
    return max([1, *stages]) * sum(tile.bytes or 0 for tile in tiles if tile.view_of is None)
