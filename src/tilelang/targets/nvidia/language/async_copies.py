"""Asynchronous copies to shared memory, element by element (level 3): `T.ptx_cp_async` and the waits for it.

Takes addresses, emits calls of instructions. Invariant: what a call touches is written down with it.
"""

from __future__ import annotations

from tilelang.dtypes import BOOL
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Const, ExprLike, as_bool, as_expr, int_const
from tilelang.language.api import api
from tilelang.language.calls import emit_call
from tilelang.language.pointers import Place, global_region, neighbors, pointer_of
from tilelang.targets.nvidia.isa.cp_async import SIZES, cp_async

__all__ = [
    "ptx_cp_async",
]


@api
def ptx_cp_async(
    dst_access_ptr: Place, src_access_ptr: Place, num_elems: int, predicate: ExprLike | None = None
) -> None:
    """Begins to copy elements that take 4, 8 or 16 bytes from a global to a shared address.

    They are there once `T.ptx_commit_group` and `T.ptx_wait_group` have followed; other threads see them after a
    barrier.

    Args:
        dst_access_ptr: Where they go in shared memory; a multiple of their bytes, as the address they come from.
        src_access_ptr: The first of them in global memory.
        num_elems: How many elements of the source: 8 of float16 are 16 bytes.
        predicate: Where it is false, zeros are written instead.

    Raises:
        ProgramError: The sides are not in those memories, or the elements take another number of bytes.

    Example:
        `T.ptx_cp_async(T.access_ptr(A_s[tx, 0], "w", 8), T.access_ptr(A[tx, 0], "r", 8), 8)`
    """
    what = "T.ptx_cp_async"
    target, source = pointer_of(what, dst_access_ptr).region, global_region(what, src_access_ptr)
    if target.buffer.scope is not Scope.SHARED:
        raise ProgramError(f"{what}: '{target.buffer.name}' is in scope {target.buffer.scope.value!r}, not shared")
    count = int_const(as_expr(num_elems))
    if count is None:
        raise ProgramError(f"{what}: num_elems is {num_elems!r:.40}, not a number known while the kernel is staged")
    size = count * source.dtype.storage_bytes
    if size not in SIZES or size % target.dtype.storage_bytes:
        raise ProgramError(
            f"{what}: {count} elements of {source.dtype!s} are {size} bytes, but the instruction copies 4, 8 or 16",
            hint=f"write {', '.join(str(n // source.dtype.storage_bytes) for n in SIZES)}",
        )
    read, written = neighbors(source, count), neighbors(target, size // target.dtype.storage_bytes)
    keep = Const(True, BOOL) if predicate is None else as_bool(predicate)
    emit_call(what, cp_async(size), written, read, keep, reads=(read,), writes=(written,))
