"""Small graphs of Level 1, made by hand."""

from tilelang.dtypes import DType
from tilelang.ir.expr import cast
from tilelang.level1.graph import Array, Combiner, Graph, Parameter, Reduction, axes_for, define, element

F16, F32, I32 = DType("float16"), DType("float32"), DType("int32")


def parameter(name: str, shape: tuple[object, ...], dtype: DType = F16, position: int = 0) -> Array:
    return define(name, shape, dtype, Parameter(position))  # type: ignore[arg-type]


def product(a: Array, b: Array) -> Array:
    axes, (k,) = axes_for((4, 5)), axes_for((3,), "k")
    body = cast(element(a, (axes[0], k)), F32) * cast(element(b, (k, axes[1])), F32)
    return define("c", (4, 5), F32, Reduction(axes, (k,), a.shape[1:], Combiner.SUM, body), stored_dtype=F16)


def matmul() -> Graph:
    a, b = parameter("a", (4, 3)), parameter("b", (3, 5), position=1)
    return Graph("matmul", (a, b), (product(a, b),))
