"""Which buffers a statement overwrites as a whole, so that their former values are dead before it.

Takes statements at tile level; gives storages. Invariant: the answer is only given where every element is surely
written, and none is read before.
"""

from __future__ import annotations

from tilelang.analysis.accesses import Access, accesses
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var, int_const
from tilelang.ir.memoize import memoized
from tilelang.ir.stmt import ParallelLoop, Stmt, Store


def overwritten(stmt: Stmt) -> frozenset[Buffer]:
    """The storages of which a tile operator or a parallel loop writes every element, and reads none before.

    They are kept on the statement.
    """
    return memoized(stmt, "_overwritten", (), lambda: _overwritten(stmt))


def _overwritten(stmt: Stmt) -> frozenset[Buffer]:
    groups = accesses(stmt).by_storage()
    return frozenset(storage for storage, touching in groups.items() if _is_whole_write(touching[0], stmt))


def _is_whole_write(access: Access, stmt: Stmt) -> bool:
    """Whether an access writes all elements of a storage in each execution of the statement."""
    context = access.context
    if not access.write or access.atomic or access.buffer.view_of is not None:
        return False
    if context.uncertain or context.conditions():
        return False
    if access.extent is None:
        writes = isinstance(stmt, ParallelLoop) and isinstance(access.stmt, Store)
        return writes and context.loops() == (stmt,) and stores_all(access.stmt, stmt)  # type: ignore[arg-type]
    shape = access.buffer.static_shape
    return shape == tuple(map(int_const, access.extent)) and all(int_const(index) == 0 for index in access.start)


def stores_all(store: Store, loop: ParallelLoop) -> bool:
    """Whether the iterations of a parallel loop are the elements of the buffer that it stores to."""
    extents = dict(zip(loop.vars, map(int_const, loop.extents), strict=True))
    shape = store.buffer.static_shape
    if shape is None or store.buffer.strides is not None or len(set(loop.vars)) != len(loop.vars):
        return False
    used: set[Var] = set()
    for index, extent in zip(store.indices, shape, strict=True):
        if isinstance(index, Var) and index in extents and index not in used and extents[index] == extent:
            used.add(index)
        elif extent != 1 or int_const(index) != 0:
            return False
    return all(var in used or extents[var] == 1 for var in loop.vars)
