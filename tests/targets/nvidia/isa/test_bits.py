import pytest

from tilelang.targets.nvidia.isa.bits import BITS


@pytest.mark.parametrize(
    ("dtype", "width"), [("uint4", 4), ("uint8", 8), ("uint16", 16), ("uint32", 32), ("uint64", 64)]
)
def test_leading_zeros_are_counted_in_the_width_of_the_dtype(dtype, width):
    def clz(x, size):
        return size - x.bit_length()

    names = {"__clz": lambda x: clz(x, 32), "__clzll": lambda x: clz(x, 64)}
    for value in (0, 1, 5, 2**width - 1):
        text = BITS["clz"][dtype].format(str(value)).replace("u)", ")")
        assert clz(value, width) == eval(text, names)
