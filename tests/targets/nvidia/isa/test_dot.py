import numpy as np
import pytest
from warp_alone import WarpAlone, run

from tilelang.dtypes import as_dtype
from tilelang.errors import NoLowering
from tilelang.isa.common.meaning import dot4
from tilelang.targets.nvidia.isa.dot import dp4a

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("name", ["int32", "uint32"])
def test_equal_signs_are_the_intrinsic(name):
    dtype = as_dtype(name)
    limits = np.iinfo(name)
    a, b, c = RNG.integers(limits.min, limits.max, (3, 32)).astype(name)
    actual = run(dp4a(dtype, dtype), WarpAlone(), a, b, c)
    assert dot4(a, b, c).tolist() == actual.tolist()


def test_bytes_are_signed_as_their_operand_is():
    signed, unsigned = as_dtype("int32"), as_dtype("uint32")
    a = np.full(32, 0x000000FF, np.uint32)
    mixed = run(dp4a(unsigned, signed), WarpAlone(), a, a.view(np.int32), np.int32(1))
    assert ("int32", -254) == (str(mixed.dtype), mixed[0])


def test_other_dtypes_say_to_pack_bytes():
    with pytest.raises(NoLowering, match="dp4a: operands are int8 and int8") as caught:
        dp4a(as_dtype("int8"), as_dtype("int8"))
    assert "pack four bytes in an int32 or uint32" == caught.value.hint
