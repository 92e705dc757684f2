"""Iterations of a softmax in which a warpgroup sees no key: those behind the diagonal of its own rows, if causal.

Takes a software-pipelined loop, gives the same with `own_stop` if what follows it changes nothing for a warpgroup: its
scores are all -inf, so that exponentials are 0, and gemms of these add 0 to the output. That holds for finite values
only, as fast math assumes. Invariant: a warpgroup computes in one iteration at least.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tilelang.analysis.accesses import storages
from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32
from tilelang.ir.expr import Const, Expr, Var, binary, const, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, CallStmt, If, Stmt
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.ops.online_softmax import OnlineSoftmax
from tilelang.ops.reduce import Reduce
from tilelang.schedule.software_pipeline import OwnStop, SoftwarePipeline
from tilelang.targets.nvidia.isa.warpgroup_index import WARPGROUP_INDEX
from tilelang.targets.nvidia.isa.wgmma import ROWS
from tilelang.transforms.split_masks import masked_from

_MAX_GROUPS = 8  # warpgroups of a block, a power of 2


def with_own_iterations(
    pipeline: SoftwarePipeline, groups: int, domain: Domain, is_uniform: Callable[[Expr], bool]
) -> SoftwarePipeline:
    """A pipelined loop that each of `groups` warpgroups leaves where the rest of it changes nothing for its rows.

    Args:
        pipeline: The loop.
        groups: How many warpgroups divide the rows.
        domain: What holds in the launch.
        is_uniform: Whether all threads have the same value of an expression.
    """
    loop, step = pipeline.loop, _step(pipeline)
    if step is None or pipeline.crossing or loop.step != 1 or int_const(loop.start) != 0:
        return pipeline
    mask = _mask(pipeline, step)
    if mask is None or int_const(step.scores.extent[0]) != groups * ROWS or not _adds_probabilities(pipeline, step):
        return pipeline
    read, group = (Var(name, INT32, index=True) for name in ("read", "warpgroup"))
    first = masked_from(mask, (group * ROWS, ROWS), loop, domain, is_uniform)
    if first is None:
        return pipeline
    stop = Var(f"{loop.var.name}_own_end", INT32, index=True)
    value = binary(BinaryOp.MAX, binary(BinaryOp.MIN, first, loop.stop), loop.start + 1)
    bounded = binary(BinaryOp.BITAND, read, const(_MAX_GROUPS - 1, INT32))
    setup = (
        CallStmt(WARPGROUP_INDEX, (), result=read, loc=loop.loc),
        Bind(group, bounded, loc=loop.loc),
        Bind(stop, value, loc=loop.loc),
    )
    return dataclasses.replace(pipeline, own_stop=OwnStop(stop, setup))


def _step(pipeline: SoftwarePipeline) -> OnlineSoftmax | None:
    """The step of a softmax that is speculative, so that nothing but masks and one gemm makes its scores."""
    if pipeline.speculation is None:
        return None
    retry = pipeline.body.statements[pipeline.speculation.last]
    assert isinstance(retry, If)
    operands = next(stmt.step for stmt in walk(retry) if isinstance(stmt, Reduce) and stmt.step)
    return OnlineSoftmax(*operands)  # type: ignore[arg-type]


def _mask(pipeline: SoftwarePipeline, step: OnlineSoftmax) -> Stmt | None:
    """The last statement that makes scores, but for gemms that add to them; None if a gemm overwrites them."""
    scores = step.scores.buffer.storage
    assert pipeline.speculation is not None
    for number in range(pipeline.speculation.first - 1, -1, -1):
        stmt = pipeline.body.statements[number]
        if storages(stmt).written == {scores} and (not isinstance(stmt, Gemm) or not _only_adds(stmt)):
            return None if isinstance(stmt, Gemm) else stmt
    return None


def _only_adds(gemm: Gemm) -> bool:
    clears = gemm.clear_accum
    return clears is None or isinstance(clears, Const) and not clears.value


def _adds_probabilities(pipeline: SoftwarePipeline, step: OnlineSoftmax) -> bool:
    """Whether the rest of the loop does nothing but add products of the probabilities to the output."""
    where = pipeline.speculation
    assert where is not None
    scores = step.scores.buffer.storage
    weights = {each.buffer.storage for each in (step.scores, step.probabilities) if each is not None}
    for number, stmt in enumerate(pipeline.body.statements):
        if where.first <= number <= where.last or storages(stmt).written == {scores}:
            continue
        if not isinstance(stmt, Gemm) or stmt.a.buffer.storage not in weights or not _only_adds(stmt):
            return False
        if stmt.c.buffer.storage is not step.output.buffer.storage:
            return False
    return True
