"""Replaces a softmax over tiles that a loop computes by reductions and parallel loops by `T.online_softmax`.

That operator rescales the output only where a maximum has grown by much, and may skip the search for it. So its
maximum need not be the largest score, but the output and the sums of exponentials are relative to it nevertheless:
`output / total` and `log2(total) + maximum * scale` do not depend on it.

Done with fast mathematics, since other roundings follow from it, on machines that compute gemms beside other
instructions, where these are what takes long. Invariant: what is computed from the output, the sums and the maximum
after the loop does not depend on the maximum.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence, Set

from tilelang.analysis.accesses import storages
from tilelang.analysis.softmax_step import SoftmaxStep, scaled_element, softmax_step
from tilelang.analysis.whole_stores import overwritten, stores_all
from tilelang.arith.domain import Domain
from tilelang.errors import Note, ProgramError
from tilelang.ir.buffer import Buffer
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Binary, Call, Const, Expr, Load, Select, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, For, Launch, ParallelLoop, Seq, Stmt, Store, TileOp, While
from tilelang.ir.visit import (
    Rewriter,
    accessed_buffers,
    children,
    expressions,
    loads_of,
    sub_statements,
    walk,
    walk_expr,
    without,
)
from tilelang.lowering.regions import whole
from tilelang.ops.gemm import Gemm
from tilelang.ops.online_softmax import OnlineSoftmax
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.passes.tile.check_program import check_pipeline
from tilelang.passes.tile.flatten_parallel import flat_loops
from tilelang.targets.machine import CommonFeature
from tilelang.transforms.distribute_parallel import distributed
from tilelang.transforms.fuse_clears import is_clear
from tilelang.transforms.placed_softmax import with_placed_step
from tilelang.transforms.separate_conversions import with_separate_conversions

_COMPARISONS = (BinaryOp.EQ, BinaryOp.NE, BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE)
_BASES = {"exp": ("log", 1.0), "exp2": ("log2", math.log(2))}
"""The inverse of each exponential, and the logarithm of its base."""


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    runs = context.options.fast_math and context.target.machine.has(CommonFeature.ASYNC_GEMMS)
    return with_launches(func, _recognize) if runs else func


def _recognize(launch: Launch) -> Launch:
    rewriter = _Loops(launch)
    body = rewriter.visit(launch.body)
    if body is None or not rewriter.found:
        return launch
    notes = [Note("the softmax is computed as by T.online_softmax", loop.loc) for loop in rewriter.found]
    plan = dataclasses.replace(launch.plan, notes=(*launch.plan.notes, *notes))
    annotated = {buffer for buffer, _ in launch.hints.layouts}
    unused = {tile for step in rewriter.found.values() for tile in step.temporaries} - annotated
    allocations = {stmt for stmt in walk(body) if isinstance(stmt, Alloc) and stmt.buffer in unused}
    return dataclasses.replace(launch, body=without(body, allocations), plan=plan)


class _Loops(Rewriter):
    """Rewrites the loops of a launch.

    Attributes:
        found: The loops with a step of a softmax.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self.found: dict[For, SoftmaxStep] = {}

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, For):
            return self.rebuild_stmt(node)
        allocations, loop, origins = _separated(node)
        step = softmax_step(loop)
        operator = None if step is None else _operator(step)
        if step is None or operator is None:
            return self.rebuild_stmt(node)
        if not _is_independent(step, node, self._launch):
            return node
        if node.pipeline is not None and node.pipeline.places_statements:
            made = with_placed_step(node, loop, origins, step, operator)
            if made is None or not _keeps_order(made[1]):
                return node
            scratch, loop = made
            allocations += scratch
        else:
            own, last = set(step.statements), step.last
            body = [operator if s is last else s for s in flat_statements(loop.body) if s is last or s not in own]
            loop = dataclasses.replace(node, body=Seq(tuple(body), loc=node.body.loc))
        self.found[node] = step
        return Seq((*allocations, loop), loc=node.loc) if allocations else loop


def _keeps_order(loop: For) -> bool:
    """Whether the places of a loop's statements keep their dependences."""
    try:
        check_pipeline(loop, Domain())
    except ProgramError:
        return False
    return True


def _separated(loop: For) -> tuple[list[Alloc], For, dict[Stmt, Stmt]]:
    """A loop with its parallel loops flat and distributed, and conversions of weights as copies.

    Gives allocations in front of it, the loop, and what its statements were.
    """
    allocations: list[Alloc] = []
    parts: dict[Stmt, Stmt] = {}
    multiplied = {stmt.a.buffer for stmt in walk(loop) if isinstance(stmt, Gemm)}
    for stmt in flat_statements(loop.body):
        if not isinstance(stmt, ParallelLoop):
            parts[stmt] = stmt
            continue
        expanded, flat = flat_loops(stmt)
        allocations += expanded
        for part in (part for each in flat for part in distributed(each)):
            added: list[Buffer] = []
            made = with_separate_conversions(part, multiplied, added)
            parts |= dict.fromkeys([part] if added else made, stmt)
    return allocations, dataclasses.replace(loop, body=Seq(tuple(parts), loc=loop.body.loc)), parts


def _operator(step: SoftmaxStep) -> OnlineSoftmax | None:
    """A step as an operator; None if its dtypes or shapes are not such."""
    tiles = (step.scores, step.output, step.maximum, step.total)
    rows = step.scores.shape[0]
    same_rows = all(same_expr(tile.shape[0], rows) for tile in tiles)
    if not same_rows or any(tile.dtype != step.scores.dtype for tile in tiles) or step.scores.dtype.bits < 32:
        return None
    if step.converted is not None and not (step.converted.dtype.is_float and step.converted.dtype.limits[1] >= 2):
        return None
    scale, base = step.scale, _BASES[step.function][1]
    if isinstance(scale, Const):
        if not 0 < scale.value < math.inf:
            return None
        scale = const(scale.value * base, scale.dtype)
    else:
        scale = scale * const(base, scale.dtype)
    converted = None if step.converted is None else whole(step.converted)
    scores, output, maximum, total = map(whole, tiles)
    return OnlineSoftmax(scores, output, maximum, total, scale, converted, loc=step.search.loc)


# -- what the launch does with the tiles of a step --------------------------------------------------------------------
def _is_independent(step: SoftmaxStep, loop: For, launch: Launch) -> bool:
    """Whether nothing outside of the loop of a step depends on what its output and sums are relative to."""
    around = [stmt for stmt in walk(launch.body) if stmt is not loop and loop in walk(stmt)]
    bodies = [launch.body, *(child for stmt in around if not isinstance(stmt, Seq) for child in sub_statements(stmt))]
    sequence = flat_statements(next(body for body in reversed(bodies) if loop in walk(body)))
    before, behind = sequence[: sequence.index(loop)], sequence[sequence.index(loop) + 1 :]
    relative = {step.maximum, step.total, step.output}
    if any(isinstance(stmt, For | While) for stmt in around):
        if not relative <= {tile for stmt in before for tile in overwritten(stmt)}:
            return False  # the loop continues from what was computed after it
    if _is_guarded(step) and not all(_begins_at_zero(tile, before) for tile in (step.total, step.output)):
        return False  # in rows without scores the constants of guards multiply what was there before the loop
    others = {step.scores, step.weights, *step.temporaries}
    left = _left_relative(behind, relative, others, step)
    checked = {inner for stmt in (loop, *behind) for inner in walk(stmt)}
    return left is not None and not any(
        _reads(stmt, left | others) for stmt in walk(launch.body) if stmt not in checked
    )


def _is_guarded(step: SoftmaxStep) -> bool:
    """Whether a step computes something else for rows without scores."""
    roots = (root for stmt in step.statements for inner in walk(stmt) for root in expressions(inner))
    return any(isinstance(expr, Select) for root in roots for expr in walk_expr(root))


def _begins_at_zero(tile: Buffer, before: Sequence[Stmt]) -> bool:
    """Whether all elements of a tile are 0 behind statements."""
    return is_clear(next((stmt for stmt in reversed(before) if tile in storages(stmt).written), None))


def _left_relative(
    statements: Sequence[Stmt], relative: Set[Buffer], others: Set[Buffer], step: SoftmaxStep
) -> Set[Buffer] | None:
    """Which tiles still depend on the maximum behind statements; None if something else does, too."""
    left = set(relative)
    inverse: set[Buffer] = set()  # tiles of quotients by the sums, which left holds, too
    for stmt in statements:
        if _adds_exponentials(stmt, left - inverse, step):
            continue
        if (quotients := _quotients_by_sums(stmt, left - inverse, step)) is not None:
            left.add(quotients)
            inverse.add(quotients)
            continue
        if any(_reads(inner, others) or _depends(inner, left, inverse, step) for inner in walk(stmt)):
            return None
        written = storages(stmt).written & left
        left -= {tile for tile in written if tile in overwritten(stmt) or _stores_all(stmt, tile)}
        inverse &= left
        if written & left:
            return None
    return left


def _adds_exponentials(stmt: Stmt, relative: Set[Buffer], step: SoftmaxStep) -> bool:
    """Whether a statement adds exponentials relative to the same maximum to the sums, as of sinks, and nothing else."""
    if not isinstance(stmt, ParallelLoop) or not isinstance(stmt.body, Store) or not _stores_all(stmt, step.total):
        return False
    store = stmt.body
    if not isinstance(store.value, Binary) or store.value.op is not BinaryOp.ADD:
        return False
    for sums, added in ((store.value.a, store.value.b), (store.value.b, store.value.a)):
        if isinstance(sums, Load) and sums.buffer is step.total and same_expr(sums.indices[0], store.indices[0]):
            return {step.total, step.maximum} <= relative and _is_relative(added, store.indices[0], relative, step)
    return False


def _quotients_by_sums(stmt: Stmt, relative: Set[Buffer], step: SoftmaxStep) -> Buffer | None:
    """The tile in which a statement stores quotients of a constant and the sum of each row, and does nothing else."""
    if not isinstance(stmt, ParallelLoop) or not isinstance(stmt.body, Store):
        return None
    store, tile = stmt.body, stmt.body.buffer
    match store.value:
        case Binary(op=BinaryOp.DIV, a=Const(), b=Load(buffer=total, indices=row)) if total is step.total:
            by_row = len(store.indices) == 1 and same_expr(store.indices[0], row[0]) and _stores_all(stmt, tile)
            return tile if by_row and total in relative and (tile is total or tile not in relative) else None
    return None


def _is_relative(expr: Expr, row: Expr, relative: Set[Buffer], step: SoftmaxStep) -> bool:
    """Whether an expression is the exponential of something relative to the maximum of a row."""
    if not isinstance(expr, Call) or expr.callee.name != step.function or not isinstance(expr.args[0], Binary):
        return False
    power = expr.args[0]
    shift = scaled_element(power.b, step.maximum)
    if power.op is not BinaryOp.SUB or shift is None or _expr_depends(power.a, relative, (), step):
        return False
    return same_expr(shift[1], step.scale) and same_expr(shift[0].indices[0], row)


def _stores_all(stmt: Stmt, tile: Buffer) -> bool:
    if not isinstance(stmt, ParallelLoop) or not isinstance(stmt.body, Store):
        return False
    return stmt.body.buffer is tile and stores_all(stmt.body, stmt)


def _reads(stmt: Stmt, tiles: Set[Buffer]) -> bool:
    """Whether a statement itself reads elements of tiles."""
    loaded = any(load.buffer.storage in tiles for root in expressions(stmt) for load in loads_of(root))
    return loaded or _reads_regions(stmt, tiles)


def _reads_regions(stmt: Stmt, tiles: Set[Buffer]) -> bool:
    if isinstance(stmt, TileOp):
        return any(region.buffer.storage in tiles for region in stmt.reads())
    is_other = not isinstance(stmt, Store | Alloc)
    return is_other and any(buffer.storage in tiles for buffer in accessed_buffers(stmt))


def _depends(stmt: Stmt, relative: Set[Buffer], inverse: Set[Buffer], step: SoftmaxStep) -> bool:
    """Whether a statement itself computes something that depends on what tiles are relative to."""
    if isinstance(stmt, Store):
        return any(_expr_depends(root, relative, inverse, step) for root in expressions(stmt))
    return _reads(stmt, relative)


def _expr_depends(expr: Expr, relative: Set[Buffer], inverse: Collection[Buffer], step: SoftmaxStep) -> bool:
    sums = step.total in relative and step.total not in inverse
    match expr:
        case Load(buffer=buffer) if buffer.storage in relative:
            return True
        case Binary(op=BinaryOp.DIV, a=Load(buffer=a) as output, b=Load(buffer=b) as total):
            same_row = same_expr(output.indices[0], total.indices[0])
            if a is step.output and b is step.total and a in relative and sums and same_row:
                return False
        case Binary(op=BinaryOp.MUL, a=a, b=b):
            if step.output in relative and any(_is_quotient(*each, inverse, step) for each in ((a, b), (b, a))):
                return False
        case Binary(op=BinaryOp.ADD, a=a, b=b):
            if step.maximum in relative and sums and any(_is_log_sum(*each, step) for each in ((a, b), (b, a))):
                return False
        case Binary(op=op, a=a, b=b) if op in _COMPARISONS and sums:
            if any(_is_sum_and_zero(*each, step) for each in ((a, b), (b, a))):
                return False  # the sums of rows without scores are 0, whatever the maximum
    return any(_expr_depends(child, relative, inverse, step) for child in children(expr))


def _is_sum_and_zero(total: Expr, limit: Expr, step: SoftmaxStep) -> bool:
    is_sum = isinstance(total, Load) and total.buffer is step.total
    return is_sum and isinstance(limit, Const) and limit.value == 0


def _is_quotient(output: Expr, factor: Expr, inverse: Collection[Buffer], step: SoftmaxStep) -> bool:
    """Whether an element of the output is multiplied by the quotient of a constant and the sum of its row."""
    if not isinstance(output, Load) or output.buffer is not step.output or not isinstance(factor, Load):
        return False
    return factor.buffer in inverse and same_expr(output.indices[0], factor.indices[0])


def _is_log_sum(log: Expr, shift: Expr, step: SoftmaxStep) -> bool:
    """Whether the logarithm of a sum and its maximum, scaled, are added up."""
    if not isinstance(log, Call) or log.callee.name != _BASES[step.function][0]:
        return False
    total, found = log.args[0], scaled_element(shift, step.maximum)
    if not isinstance(total, Load) or total.buffer is not step.total or found is None:
        return False
    return same_expr(found[1], step.scale) and same_expr(total.indices[0], found[0].indices[0])


PASS = Pass(
    "recognize_online_softmax", _run, Level.TILE, Level.TILE,
    requires=(Property.RULES_CHECKED,),
)
