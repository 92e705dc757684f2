import pytest

from tilelang.dtypes import INT32, as_dtype
from tilelang.errors import OptionError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Var
from tilelang.ir.func import ScalarParam, TensorParam
from tilelang.runtime.kernel_param import KernelParam

N = Var("N", INT32, index=True)


def test_extents_are_ints_where_they_are_known() -> None:
    param = TensorParam(Buffer("A", (N, Const(8, INT32)), as_dtype("float16"), Scope.GLOBAL))
    described = KernelParam.of(param)
    assert ("A", "float16", [N, 8]) == (described.name, described.dtype, described.shape)
    assert isinstance(described.shape[1], int)
    assert not described.is_scalar()


def test_scalars_have_no_extents() -> None:
    described = KernelParam.of(ScalarParam(N))
    assert ("N", "int32", []) == (described.name, described.dtype, described.shape)
    assert described.is_scalar()
    assert "KernelParam(dtype='int32', shape=[], name='N')" == repr(described)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("uint8", "is_unsigned"),
        ("float8_e4m3fn", "is_float8"),
        ("float4_e2m1fn", "is_float4"),
        ("bool", "is_boolean"),
        ("float32", ""),
        ("int4", ""),
    ],
)
def test_a_description_answers_what_its_elements_are(dtype: str, expected: str) -> None:
    param = KernelParam(dtype, [4])
    questions = ("is_unsigned", "is_float8", "is_float4", "is_boolean")
    assert [name for name in questions if getattr(param, name)()] == [name for name in (expected,) if name]
    assert dtype == param.tilelang_dtype()


def test_the_dtype_may_be_written_in_any_way() -> None:
    torch = pytest.importorskip("torch")
    assert torch.float16 is KernelParam(torch.float16, (2, 3)).torch_dtype()
    with pytest.raises(OptionError, match="unknown name 'float17'"):
        KernelParam("float17")
