"""`T.make_tensor` and its kin: tensors at addresses, and declarations of buffers by their storage.

Takes addresses as integer expressions, emits declarations, gives proxies. Invariant: a tensor at an address is guarded
by its shape like a parameter, and memory that it names has no other name in the function.
"""

from __future__ import annotations

from tilelang.errors import ProgramError, ProgramTypeError, ProgramValueError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Expr, ExprLike, Var, as_expr
from tilelang.ir.stmt import Alloc, Bind
from tilelang.language.alloc import alloc_fragment, alloc_global, alloc_local, alloc_shared
from tilelang.language.api import api
from tilelang.language.extents import shape_text
from tilelang.language.proxy import BufferProxy, TileProxy
from tilelang.language.stage import Stager, current, reads_memory
from tilelang.language.types import DTypeLike, ShapeLike, StorageHandle, as_shape, plain_dtype, storage_of

__all__ = [
    "alloc_buffer",
    "allocate",
    "decl_buffer",
    "make_tensor",
    "make_tensor_from_addr",
    "sblock_alloc_buffer",
]

_ADDRESS_BITS = 64


@api
def make_tensor(
    ptr: ExprLike | StorageHandle, shape: ShapeLike, dtype: DTypeLike = "float32", strides: ShapeLike | None = None
) -> BufferProxy:
    """The global tensor at an address: a pointer parameter, an element of a table of addresses, or `buf.data`.

    It may stand inside and outside of `T.Kernel`. Accesses out of bounds of its shape are guarded as those of a
    parameter are. The address is a multiple of 16 bytes, as every allocation of a framework is; one that a call passes
    itself is looked at, one out of a table is not. Distinct tensors are distinct memory: what is written through one
    name must not be accessed through another one in the same kernel.

    Shapes: constants, symbolic dims, and expressions of them or of values that the kernel has read.

    Args:
        ptr: The address.
        shape: The extents.
        dtype: The element dtype.
        strides: In elements; row-major and dense without them.

    Raises:
        ProgramTypeError: `ptr` is no integer of 64 bits.
        ProgramValueError: The numbers of extents and strides differ.

    Example:
        `A = T.make_tensor(table[group], (rows, K), T.float16)`
    """
    return _at_address("T.make_tensor", ptr, shape, dtype, strides)


@api
def make_tensor_from_addr(
    addr: ExprLike,
    shape: ShapeLike,
    dtype: DTypeLike = "float32",
    strides: ShapeLike | None = None,
    storage_scope: str = "global",
) -> BufferProxy:
    """The global tensor at an address, as an expression of 64 bits; as `T.make_tensor` otherwise.

    Raises:
        ProgramTypeError: `addr` is no integer of 64 bits.
        ProgramValueError: The scope is another one than "global", or the numbers of extents and strides differ.
    """
    what = "T.make_tensor_from_addr"
    if storage_scope != "global":
        raise ProgramValueError(f"{what}: addresses are of global memory, not of {storage_scope!r}")
    return _at_address(what, addr, shape, dtype, strides)


_ALLOCATE = {
    "global": alloc_global,
    "shared": alloc_shared,
    "shared.dyn": alloc_shared,
    "local": alloc_local,
    "local.fragment": alloc_fragment,
}


@api
def decl_buffer(
    shape: ShapeLike,
    dtype: DTypeLike = "float32",
    data: StorageHandle | None = None,
    strides: ShapeLike | None = None,
    elem_offset: ExprLike | None = None,
    scope: str = "",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: object = None,
) -> BufferProxy:
    """Another name of a buffer's storage, as `T.Tensor(shape, dtype, data)`; without `data`, a new buffer.

    Args:
        shape: The extents.
        dtype: The element dtype.
        data: `buf.data`.
        strides: None; names are dense and row-major.
        elem_offset: None or 0.
        scope: Of a new buffer, "global" without it.
        align: Accepted; buffers are aligned for the widest access.
        offset_factor: Accepted without influence, as are the arguments that follow.
        buffer_type: See `offset_factor`.
        axis_separators: See `offset_factor`.

    Raises:
        ProgramValueError: There is no such scope, or an offset is given.
        ProgramSizeError: The new name takes more bytes than there are.
    """
    del align, offset_factor, buffer_type, axis_separators
    what = "T.decl_buffer"
    if elem_offset is not None and not (isinstance(elem_offset, int) and elem_offset == 0):
        raise ProgramValueError(f"{what}: elem_offset is not 0", hint="index the buffer from there on")
    if data is not None:
        return storage_of(data, what).tensor(shape, dtype, strides)
    if strides is not None:
        raise ProgramValueError(f"{what}: a new buffer is dense", hint="leave the strides out")
    return _allocate(what, shape, dtype, scope or "global")


@api
def alloc_buffer(
    shape: ShapeLike, dtype: DTypeLike = "float32", scope: str = "global", annotations: object = None
) -> BufferProxy:
    """A buffer in the scope that is named: "global", "shared", "shared.dyn", "local.fragment" or "local".

    Shapes: as for the `T.alloc_*` of the scope; `T.alloc_global` for "global".

    Args:
        shape: The extents.
        dtype: The element dtype.
        scope: Where it lives.
        annotations: Accepted without influence.

    Raises:
        ProgramValueError: There is no such scope.
    """
    del annotations
    return _allocate("T.alloc_buffer", shape, dtype, scope)


allocate = alloc_buffer
sblock_alloc_buffer = decl_buffer


def _allocate(what: str, shape: ShapeLike, dtype: DTypeLike, scope: str) -> BufferProxy:
    allocator = _ALLOCATE.get(scope)
    if allocator is None:
        raise ProgramValueError(
            f"{what}: there is no scope {scope!r}", hint=f"write one of {', '.join(map(repr, _ALLOCATE))}"
        )
    if scope == "shared":
        return alloc_shared(shape, dtype, scope)
    return allocator(shape, dtype)


def _at_address(
    what: str, ptr: object, shape: ShapeLike, dtype: DTypeLike, strides: ShapeLike | None
) -> BufferProxy:
    stager = current(what)
    if isinstance(ptr, StorageHandle):
        return ptr.tensor(shape, dtype, strides)
    extents, row = as_shape(shape, what), plain_dtype(dtype, what)
    steps = None if strides is None else as_shape(strides, what, word="stride")
    if steps is not None and len(steps) != len(extents):
        raise ProgramValueError(f"{what}: {len(extents)} extents {shape_text(extents)} but {len(steps)} strides")
    name = stager.suggest("tensor")
    address = _fixed(stager, f"{name}_address", _address(what, ptr))
    extents = tuple(_fixed(stager, f"{name}_extent", extent) for extent in extents)
    steps = None if steps is None else tuple(_fixed(stager, f"{name}_stride", step) for step in steps)
    buffer = Buffer(name, extents, row, Scope.GLOBAL, steps, loc=stager.loc, address=address)
    stager.emit(Alloc(buffer))
    return BufferProxy(buffer)


def _address(what: str, ptr: object) -> Expr:
    if isinstance(ptr, TileProxy) and ptr.ndim:
        raise ProgramTypeError(
            f"{what}: '{ptr.name}' is a tensor, not an address",
            hint=f"write an element of a table, as in {ptr.name}[i], or {ptr.name}.data for the tensor's own address",
        )
    try:
        expr = as_expr(ptr)  # type: ignore[arg-type]
    except ProgramError:
        raise
    except Exception as error:
        raise ProgramTypeError(
            f"{what}: {ptr!r:.60} is not an address", hint="pass a parameter `p: T.ptr` or an element of a table"
        ) from error
    if not isinstance(expr, Const) and (not expr.dtype.is_int or expr.dtype.bits != _ADDRESS_BITS):
        raise ProgramTypeError(
            f"{what}: the address is a {expr.dtype!s}, not an integer of {_ADDRESS_BITS} bits",
            hint="declare a table of addresses as T.Tensor([n], T.ptr)",
        )
    return expr


def _fixed(stager: Stager, name: str, value: Expr) -> Expr:
    """The value under a name, where it is read from memory and might change there."""
    if not reads_memory(value):
        return value
    var = Var(stager.unique(name), value.dtype, index=True)
    stager.emit(Bind(var, value))
    return var
