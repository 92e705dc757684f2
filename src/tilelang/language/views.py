"""Other names for the bytes of a buffer, under another shape and dtype.

Takes buffers with shapes and dtypes, emits declarations, gives proxies. Invariant: a view begins where its buffer does
and lies within it as far as sizes are known, and the host can compute its shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilelang.dtypes import DType
from tilelang.errors import ProgramError, ProgramSizeError
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Load, Var, as_bool, as_expr
from tilelang.ir.func import ScalarParam
from tilelang.ir.stmt import Alloc
from tilelang.ir.visit import walk_expr
from tilelang.language.extents import difference, product, shape_text, text
from tilelang.language.proxy import BufferProxy
from tilelang.language.stage import Stager, current
from tilelang.language.types import DTypeLike, ShapeLike, StorageHandle, as_shape, plain_dtype


class BufferStorage(StorageHandle):
    """The storage of a buffer: `buf.data`.

    Attributes:
        buffer: The buffer.
    """

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    def tensor(self, shape: ShapeLike, dtype: DTypeLike, strides: ShapeLike | None = None) -> BufferProxy:
        """The same bytes from their start, row-major in another shape; writing through either name is seen by both.

        Raises:
            ProgramSizeError: The new tensor is larger.
            ProgramError: The buffer is a strided tensor, or strides are given.
        """
        what, source = "T.Tensor(data=)", self.buffer
        if source.strides is not None or strides is not None:
            raise ProgramError(
                f"{what}: '{source.name}' and its other name must be dense and row-major",
                hint="leave the strides out, and index the tensor accordingly",
            )
        return view_of(what, source, as_shape(shape, what), plain_dtype(dtype, what), exact=source.scope.on_chip)


def view_of(what: str, source: Buffer, shape: tuple[Expr, ...], dtype: DType, *, exact: bool = True) -> BufferProxy:
    """Emits another name for the bytes of a buffer, from their start.

    Args:
        what: The construct, for errors.
        source: The buffer.
        shape: The new shape.
        dtype: The new dtype.
        exact: Whether both must have the same number of bytes; otherwise the new one may have fewer.

    Raises:
        ProgramSizeError: The numbers of bytes do not fit.
    """
    stager = current(what)
    old, new = product(source.shape) * source.dtype.storage_bytes, product(shape) * dtype.storage_bytes
    more = difference(new, old)
    if more != 0 if exact else more is not None and more > 0 and source.address is None:
        raise wrong_size(what, source, shape, dtype, exact=exact)
    if not known_before_launch(stager, shape, source.shape):
        raise ProgramError(
            f"{what}: the shape {shape_text(shape)} depends on values of the kernel",
            hint="write constants, dims and scalar parameters, or T.make_tensor(address, shape, dtype)",
        )
    if more is None and source.address is None:
        stager.assumptions.append(as_bool(as_expr(new) <= as_expr(old)))  # a call that breaks it is refused
    name = stager.suggest(f"{source.name}_view")
    buffer = Buffer(name, shape, dtype, source.scope, view_of=source, loc=stager.loc)
    stager.emit(Alloc(buffer))
    return BufferProxy(buffer)


def known_before_launch(stager: Stager, exprs: Sequence[Expr], given: Sequence[Expr] = ()) -> bool:
    """Whether the host can compute expressions: of constants, dims, scalar parameters, and what stands in `given`."""
    known = set(_nodes(given))
    for param in stager.params.values():
        if isinstance(param, ScalarParam):
            known.add(param.var)
        else:
            known.update(_nodes((*param.shape, *(param.buffer.strides or ()))))
    return all(node in known if isinstance(node, Var) else not isinstance(node, Load) for node in _nodes(exprs))


def _nodes(exprs: Sequence[Expr]) -> Iterator[Expr]:
    for expr in exprs:
        yield from walk_expr(expr)


def wrong_size(
    what: str, source: Buffer, shape: tuple[Expr, ...], dtype: DType, *, exact: bool = True
) -> ProgramSizeError:
    """The error for another name of a buffer's bytes that does not fit; the arguments are those of `view_of`."""
    old, new = product(source.shape) * source.dtype.storage_bytes, product(shape) * dtype.storage_bytes
    return ProgramSizeError(
        f"{what}: '{source.name}' is {shape_text(source.shape)} of {source.dtype!s}, {text(old)} bytes, but "
        f"{shape_text(shape)} of {dtype!s} takes {text(new)}",
        hint="both must have the same number of bytes" if exact else "name no more bytes than there are",
    )
