from collections.abc import Callable

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.ir.expr import Var
from tilelang.language.proxy import BufferProxy
from tilelang.language.stage import Stager
from tilelang.ops.fill import Fill

Tensor = Callable[..., BufferProxy]
Box = Callable[..., list[str]]
k = Var("k", INT32, index=True)


def test_fill_converts_the_value(stager: Stager, box: Box) -> None:
    s = T.alloc_fragment((4, 8), "float16")
    T.fill(s[1:3], 0.1)  # type: ignore[arg-type]
    T.clear(s, annotations={"order": 1})
    T.fill(s[0, 0], k, annotations={"order": 2})  # type: ignore[arg-type]
    first, second, third = stager.statements[1:]
    assert isinstance(first, Fill)
    assert isinstance(second, Fill)
    assert isinstance(third, Fill)
    assert ("float16", ["1+2", "0+8"]) == (first.value.dtype, box(first.dst))
    assert (0.0, "float16") == (second.value.value, third.value.dtype)  # type: ignore[attr-defined]
    assert ["0+1", "0+1"] == box(third.dst)


def test_a_mutable_scalar_can_be_cleared(stager: Stager) -> None:
    T.clear(T.alloc_var("float32"))
    assert isinstance(stager.statements[-1], Fill)
