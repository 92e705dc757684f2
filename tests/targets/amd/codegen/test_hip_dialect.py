import pytest

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.errors import NoLowering
from tilelang.isa.catalogue import INTRINSICS
from tilelang.targets.amd.codegen.hip_dialect import HIP
from tilelang.targets.nvidia.codegen.cuda_dialect import CUDA


def test_every_dtype_has_types() -> None:
    for dtype in SCALARS.values():
        assert HIP.storage_type(dtype) and HIP.value_type(dtype)
    assert "uint32x4_t" == HIP.value_type(as_dtype("float16x8")) == HIP.storage_type(as_dtype("float32x4"))


def test_an_intrinsic_without_a_text_is_refused() -> None:
    with pytest.raises(NoLowering, match="T.exp: has no hip form for int32"):
        HIP.template(INTRINSICS["exp"], as_dtype("int32"))


def test_the_dialect_has_what_that_of_other_gpus_has() -> None:
    assert set(CUDA.helpers) == set(HIP.helpers)
    assert set(CUDA.index_types) == set(HIP.index_types)
