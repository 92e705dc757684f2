import pytest

from tilelang.dtypes import as_dtype
from tilelang.errors import NoLowering
from tilelang.isa.c_type import CType
from tilelang.isa.intrinsic import Helper
from tilelang.targets.gpu.isa.c_types import CTypes

WIDE = Helper("tl_words", "template <int N> struct tl_words;\n")
TYPES = CTypes("C", {"float16": CType("half", "float")}, {2: CType("short", "short"), 16: CType("quad", "quad")}, WIDE)


def test_elements_are_found_by_their_dtype():
    assert CType("half", "float") == TYPES.of(as_dtype("float16")) == TYPES.of_lane(as_dtype("float16x8"))


def test_short_vectors_are_words_of_one_access_or_pieces_of_16_bytes():
    assert ["short", "quad"] == [TYPES.of(as_dtype(name)).name for name in ("int8x2", "float16x8")]
    assert CType("tl_words<3>", "tl_words<3>", WIDE) == TYPES.words(48)


@pytest.mark.parametrize("size", [0, 6, 24])
def test_other_sizes_are_refused(size):
    with pytest.raises(NoLowering, match=f"C: no type of {size} bytes for short vectors") as caught:
        TYPES.words(size)
    assert "use a power of two of lanes" == caught.value.hint


def test_vectors_are_refused_likewise():
    with pytest.raises(NoLowering, match="C: no type of 6 bytes"):
        TYPES.of(as_dtype("float16x3"))
