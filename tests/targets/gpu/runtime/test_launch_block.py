import ctypes
import struct

import numpy as np
import pytest
from fake_cuda import FakeCuda, launch
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import as_dtype
from tilelang.errors import CompilerBug
from tilelang.targets.gpu.runtime.launch_block import MAP, Placed, format_of, letter, make_block, packed_scalar


@pytest.mark.parametrize(
    ("ctype", "size", "expected"),
    [
        ("void*", None, "Q"), ("const half_t* __restrict__", None, "Q"), ("int32_t", None, "i"), ("int", None, "i"),
        ("int64_t", None, "q"), ("float", None, "f"), ("double", None, "d"), ("bool", None, "?"),
        ("half_t", 2, "H"), ("float8_e4m3_t", 1, "B"),
    ],
)  # fmt: skip
def test_every_type_of_an_argument_has_a_letter(ctype: str, size: int | None, expected: str) -> None:
    assert expected == letter(ctype, size)


def test_an_unknown_type_is_our_fault() -> None:
    with pytest.raises(CompilerBug, match="'matrix_t', which a call cannot fill in"):
        letter("matrix_t")


@pytest.mark.parametrize(
    ("value", "dtype", "code", "expected"),
    [
        (7, "int32", "i", 7),
        (0.1, "float16", "H", int(np.float16(0.1).view(np.uint16))),
        (0.1, "float16", "f", float(np.float16(0.1))),
        (1e40, "float32", "f", float("inf")),
        (0.1, "float64", "d", 0.1),
        (1.5, "bfloat16", "H", 0x3FC0),
    ],
)
def test_a_scalar_is_rounded_to_its_dtype(value: float, dtype: str, code: str, expected: float) -> None:
    with np.errstate(over="ignore"):
        assert expected == packed_scalar(value, as_dtype(dtype), code)


_VALUES = {
    "Q": 2**63 + 1, "q": -5, "i": -7, "f": 1.5, "d": 2.5, "?": True, "b": -1, "H": 65535, "B": 200, MAP: b"m" * 128
}  # fmt: skip


@given(st.lists(st.sampled_from(sorted(_VALUES)), max_size=20), st.lists(st.sampled_from(sorted(_VALUES)), max_size=4))
def test_the_driver_finds_every_argument_where_the_pointers_say(first: list[str], second: list[str]) -> None:
    cuda = FakeCuda()
    cuda.context, cuda.functions = 100, {1000: "one", 1001: "two"}
    cuda.arities = {"one": len(first), "two": len(second)}
    placed = [
        Placed(launch(name="one"), (3, 2, 1), 1000, format_of(first)),
        Placed(launch(name="two", shared_bytes=0), (9, 1, 1), 1001, format_of(second)),
    ]
    block = make_block(placed)
    for slot, part, letters in zip(block.slots, placed, (first, second), strict=True):
        part.format.write(block, slot, 42, [_VALUES[code] for code in letters])
        cuda.cuLaunchKernelEx(slot.config, slot.function, slot.parameters, None)
    one, two = cuda.launches
    assert [_VALUES[code] for code in first] == one.values(first)
    assert [_VALUES[code] for code in second] == two.values(second)
    assert ((3, 2, 1), (128, 1, 1), 1024, 42, []) == (one.grid, one.threads, one.shared_bytes, one.stream, one.attributes)
    assert ((9, 1, 1), 0) == (two.grid, two.shared_bytes)


@given(st.lists(st.sampled_from(sorted(_VALUES)), max_size=20))
def test_arguments_lie_at_multiples_of_their_size(letters: list[str]) -> None:
    layout = format_of(letters)
    end = 0
    for code, offset in zip(letters, layout.offsets, strict=True):
        size = struct.calcsize(f"<{code}")
        assert offset >= end
        assert 0 == offset % min(size, 64)
        end = offset + size


def test_clusters_and_cooperative_launches_are_attributes() -> None:
    cuda = FakeCuda()
    cuda.context, cuda.functions, cuda.arities = 100, {1000: "one"}, {"one": 0}
    block = make_block([Placed(launch(cluster=(2, 1, 1), cooperative=True), (4, 1, 1), 1000, format_of(""))])
    (slot,) = block.slots
    assert 2 == slot.attribute_count
    for _ in range(2):  # completing a launch leaves them
        format_of("").write(block, slot, 0, [])
        cuda.cuLaunchKernelEx(slot.config, slot.function, slot.parameters, None)
        assert [(4, (2, 1, 1)), (2, (1, 0, 0))] == cuda.launches[-1].attributes


def test_a_launch_that_may_begin_early_says_so() -> None:
    cuda = FakeCuda()
    cuda.context, cuda.functions, cuda.arities = 100, {1000: "one"}, {"one": 0}
    for wanted, attributes in ((launch(early=True), [6]), (launch(cluster=(2, 1, 1), early=True), [4, 6])):
        (slot,) = make_block([Placed(wanted, (4, 1, 1), 1000, format_of(""))]).slots
        cuda.cuLaunchKernelEx(slot.config, slot.function, slot.parameters, None)
        assert attributes == [kind for kind, _ in cuda.launches[-1].attributes]
        assert (6, (1, 0, 0)) == cuda.launches[-1].attributes[-1]


def test_blocks_do_not_share_memory() -> None:
    placed = [Placed(launch(), (1, 1, 1), 1000, format_of("Q"))]
    first, second = make_block(placed), make_block(placed)
    assert ctypes.addressof(first.memory) != ctypes.addressof(second.memory)
