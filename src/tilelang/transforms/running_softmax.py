"""Running sums of a softmax that a program writes as loops: rescaled only where a running maximum grows.

    T.reduce_max(S, m, clear=False)                     T.reduce_max(S, m, clear=False)
    for i in T.Parallel(M):                             for i in T.Parallel(M):
        r[i] = T.exp2(old[i] - m[i])                        r[i] = T.exp2(old[i] - m[i])
    T.reduce_sum(S, t)                            =>
    for i in T.Parallel(M):                             for i in T.Parallel(M):
        total[i] = total[i] * r[i] + t[i]                   total[i] = total[i] * r[i]
                                                        for i, j in T.Parallel(M, N):
                                                            total[i] = total[i] + S[i, j]
    for i, j in T.Parallel(M, D):                       for i, j in T.Parallel(M, D):
        O[i, j] = O[i, j] * r[i]                            if r[i] != 1:
                                                                O[i, j] = O[i, j] * r[i]

Takes the statements of a loop. Warps may then skip the loop over O by a vote, and complete the sums of rows after the
loop. Invariant: the statements compute the same, up to the order of additions to `total`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from tilelang.analysis.accesses import storages
from tilelang.analysis.defer_reductions import Scaling, scaling_of
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Binary, Call, Expr, Load, Var, binary, const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import If, ParallelLoop, Stmt, Store
from tilelang.ir.visit import accessed_buffers, loads_of
from tilelang.lowering.regions import is_whole
from tilelang.ops.gemm import Gemm
from tilelang.ops.reduce import Reduce, ReduceOp


def with_rare_rescaling(statements: Sequence[Stmt], elsewhere: Iterable[Stmt]) -> list[tuple[Stmt, Stmt]]:
    """The statements of a loop, with the sums of a softmax rescaled where that changes them; each with what it was.

    Args:
        statements: The statements, in which parallel loops are distributed.
        elsewhere: All other statements of the launch.
    """
    factors = _factors(statements)
    if not factors:
        return [(stmt, stmt) for stmt in statements]
    sums = {s.c.buffer for s in statements if isinstance(s, Gemm) and s.c.buffer.scope is Scope.FRAGMENT}
    used = {buffer.storage for stmt in elsewhere for buffer in accessed_buffers(stmt)}
    return [(_skipped(stmt, sums, factors), was) for stmt, was in _with_merged_sums(statements, used)]


def _factors(statements: Sequence[Stmt]) -> frozenset[Buffer]:
    """The tiles that hold a special function of a maximum: exponentials that are 1 where the maximum did not grow."""
    largest = {s.dst.buffer for s in statements if isinstance(s, Reduce) and s.op is ReduceOp.MAX}
    rows = [s.body for s in statements if isinstance(s, ParallelLoop) and len(s.vars) == 1]
    factors = set()
    for store in rows:
        if isinstance(store, Store) and any(load.buffer in largest for load in loads_of(store.value)):
            if isinstance(store.value, Binary) and store.value.op is BinaryOp.MAX:
                largest.add(store.buffer)
            elif isinstance(store.value, Call):
                factors.add(store.buffer)
    return frozenset(factors)


def _skipped(stmt: Stmt, sums: set[Buffer], factors: frozenset[Buffer]) -> Stmt:
    """A loop that rescales the result of a gemm by rows, as one that does so where the factor is not 1."""
    scaling = scaling_of(stmt) if isinstance(stmt, ParallelLoop) else None
    if scaling is None or scaling.buffer not in sums or not _is_row_of(scaling, factors):
        return stmt
    loop = scaling.nest
    changes = binary(BinaryOp.NE, scaling.factor, const(1, scaling.factor.dtype))
    return dataclasses.replace(loop, body=If(changes, loop.body, loc=loop.body.loc))


def _is_row_of(scaling: Scaling, factors: frozenset[Buffer]) -> bool:
    factor = scaling.factor
    return isinstance(factor, Load) and factor.buffer in factors and _same(factor.indices, scaling.nest.vars[:-1])


# -- sums of rows -----------------------------------------------------------------------------------------------------
def _with_merged_sums(statements: Sequence[Stmt], used: set[Buffer]) -> list[tuple[Stmt, Stmt]]:
    """The statements, in which sums of rows are added to running sums without a tile between; each with what it was."""
    merged: list[tuple[Stmt, Stmt]] = []
    for stmt in statements:
        found = _update(stmt)
        before = [each for each, _ in merged]
        reduce = None if found is None else _sum_before(before, found[1], statements, used)
        if found is None or reduce is None or not isinstance(stmt, ParallelLoop):
            merged.append((stmt, stmt))
            continue
        scale, _ = found
        del merged[before.index(reduce)]
        merged += [(dataclasses.replace(stmt, body=scale), stmt), (_addition(stmt, scale, reduce), stmt)]
    return merged


def _update(stmt: Stmt) -> tuple[Store, Buffer] | None:
    """Of `total[i] = total[i] * r + t[i]` for all i, the store of the product, and t."""
    if not isinstance(stmt, ParallelLoop) or len(stmt.vars) != 1 or not isinstance(stmt.body, Store):
        return None
    store = stmt.body
    if not isinstance(store.value, Binary) or store.value.op is not BinaryOp.ADD:
        return None
    for product, added in ((store.value.a, store.value.b), (store.value.b, store.value.a)):
        scale = dataclasses.replace(store, value=product)
        if not isinstance(added, Load) or not _same(added.indices, stmt.vars) or added.dtype != store.buffer.dtype:
            continue
        if scaling_of(dataclasses.replace(stmt, body=scale)) is not None:
            return scale, added.buffer
    return None


def _same(indices: Sequence[Expr], variables: Sequence[Var]) -> bool:
    return len(indices) == len(variables) and all(map(same_expr, indices, variables))


def _sum_before(before: Sequence[Stmt], sums: Buffer, statements: Sequence[Stmt], used: set[Buffer]) -> Reduce | None:
    """The sum of the rows of a matrix that fills a tile for one reader only, and could as well be computed there."""
    reduce = next((s for s in before if isinstance(s, Reduce) and s.dst.buffer is sums), None)
    if reduce is None or sums.storage in used or not _is_sum_of_rows(reduce):
        return None
    users = [s for s in statements if sums.storage in storages(s).all]
    between = before[before.index(reduce) + 1 :]
    source = reduce.src.buffer.storage
    is_written = any(source in storages(stmt).written for stmt in between)
    return None if is_written or len(users) != 2 else reduce


def _is_sum_of_rows(reduce: Reduce) -> bool:
    src, dst = reduce.src.buffer, reduce.dst.buffer
    on_chip = src.scope is Scope.FRAGMENT and dst.scope is Scope.FRAGMENT
    is_plain = reduce.op is ReduceOp.SUM and reduce.clear and reduce.dim in (1, -1)
    shapes = (src.rank, dst.rank) == (2, 1) and is_whole(reduce.src) and is_whole(reduce.dst)
    return on_chip and is_plain and shapes and src.dtype == dst.dtype == reduce.accumulator_dtype


def _addition(loop: ParallelLoop, scale: Store, reduce: Reduce) -> ParallelLoop:
    """Adds the elements of a matrix to the running sums of their rows."""
    src = reduce.src.buffer
    row, column = (Var(name, loop.vars[0].dtype, index=True) for name in ("i", "j"))
    value = binary(BinaryOp.ADD, Load(scale.buffer, (row,), src.dtype), Load(src, (row, column), src.dtype))
    return ParallelLoop((row, column), src.shape, Store(scale.buffer, (row,), value, loc=reduce.loc), loc=reduce.loc)
