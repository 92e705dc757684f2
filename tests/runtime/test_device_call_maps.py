"""Calls of kernels with tensor maps."""

from typing import Any

import pytest
from device_calls import Calls
from fake_cuda import (  # noqa: F401
    EncodedMap,
    FakeCuda,
    FakeTensor,
    FakeTorch,
    cuda,
    device_code,
    launch,
    map_text,
    signature,
    tensor,
    torch,
)

from tilelang.dtypes import INT32
from tilelang.errors import ArgumentError, DriverError, NoLowering
from tilelang.ir.expr import Var
from tilelang.ir.specialization import Specialization

M, K = (Var(name, INT32, index=True) for name in "MK")


def mapped(cuda: FakeCuda, *, needed: str = "") -> Calls:
    """A kernel whose programs have maps of A and C where these may have one; `needed` says what it cannot do without."""
    s = signature(tensor("A", M, K, dtype="float16"), tensor("C", M, K, dtype="float16"), symbols=(M, K))

    def make(specialization: Specialization) -> Any:
        columns = f"K_div{factor} * {factor}" if (factor := dict(specialization.multiples).get("K")) else "K"
        if specialization.misaligned and needed == "aligned":
            raise NoLowering("T.tma_copy: 'A' may begin at any element")
        tensors = [n for n, name in enumerate("AC") if factor and (name not in specialization.misaligned or needed == "maps")]
        maps = tuple(map_text(n, (columns, "M"), (f"{columns} * 2",), (64, 8)) for n in tensors)
        arguments = [("tensor_map", n, "tl_tensor_map") for n in range(len(maps))]
        return device_code(launch(("tensor", 0, "void*"), *arguments, grid=("4",), maps=maps))

    return Calls(cuda, s, make)


def two(torch: FakeTorch, rows: int, columns: int) -> list[FakeTensor]:
    return [FakeTensor((rows, columns), torch.float16) for _ in range(2)]


def maps_of(done: Any) -> list[EncodedMap]:
    return [EncodedMap.of(data) for data in done.arguments[1:]]


def test_maps_have_the_addresses_of_tensors_on_both_paths(cuda: FakeCuda, torch: FakeTorch) -> None:
    calls = mapped(cuda)
    for rows, columns in ((16, 128), (16, 128), (24, 256), (16, 128), (24, 256)):
        tensors = two(torch, rows, columns)
        calls(*tensors)
        assert [(t.pointer, (columns, rows), (columns * 2,), (64, 8)) for t in tensors] == [
            (one.address, one.dims, one.strides, one.box) for one in maps_of(cuda.launches[-1])
        ]
    assert (2, [Specialization((("K", 128),))]) == (calls.long, calls.variants)


def test_the_same_tensors_are_described_once(cuda: FakeCuda, torch: FakeTorch) -> None:
    calls = mapped(cuda)
    tensors = two(torch, 16, 128)
    for _ in range(5):
        calls(*tensors)
    assert (5, 2) == (len(cuda.launches), cuda.calls.count("cuTensorMapEncodeTiled"))


def test_sizes_without_valid_maps_use_another_program(cuda: FakeCuda, torch: FakeTorch) -> None:
    calls = mapped(cuda)
    for _ in range(2):
        calls(*two(torch, 16, 129))
        assert [] == cuda.launches[-1].arguments[1:]
    assert (1, [Specialization()]) == (calls.long, calls.variants)


def test_a_tensor_that_no_map_can_describe_loses_its_map_only(cuda: FakeCuda, torch: FakeTorch) -> None:
    calls = mapped(cuda)
    a, c = two(torch, 16, 128)
    calls(a.shifted(2), c)
    assert [c.pointer] == [one.address for one in maps_of(cuda.launches[-1])]
    assert [Specialization((("K", 128),), ("A",))] == calls.variants


def test_empty_tensors_have_no_maps_but_a_fast_path(cuda: FakeCuda, torch: FakeTorch) -> None:
    calls = mapped(cuda)
    for _ in range(3):
        calls(*two(torch, 0, 128))
    assert ([[]] * 3, 1) == ([done.arguments[1:] for done in cuda.launches], calls.long)
    assert [Specialization((("K", 128),)), Specialization((("K", 128),), ("A", "C"))] == calls.variants


def test_a_kernel_that_requires_a_map_reports_the_violated_rule(cuda: FakeCuda, torch: FakeTorch) -> None:
    a, c = two(torch, 16, 128)
    odd = a.shifted(2)
    with pytest.raises(ArgumentError) as caught:
        mapped(cuda, needed="aligned")(odd, c)
    assert f"kernel: 'A' begins at address {odd.pointer:#x}, which is no multiple of 16" == caught.value.message
    assert ["and the kernel relies on it: T.tma_copy: 'A' may begin at any element"] == [
        note.text for note in caught.value.notes
    ]
    with pytest.raises(ArgumentError, match="kernel: no tensor map of 'A': tensors begin at multiples of 16 bytes"):
        mapped(cuda, needed="maps")(odd, c)
    with pytest.raises(ArgumentError, match="kernel: no tensor map of 'A': a dimension has 1 to 4294967296 elements"):
        mapped(cuda, needed="maps")(*two(torch, 0, 128))
    assert [] == cuda.launches


def test_a_map_that_the_driver_refuses_launches_nothing(cuda: FakeCuda, torch: FakeTorch) -> None:
    calls = mapped(cuda)
    cuda.failing["cuTensorMapEncodeTiled"] = 1
    with pytest.raises(DriverError, match="cuTensorMapEncodeTiled of 'A' at 0x"):
        calls(*two(torch, 16, 128))
    assert [] == cuda.launches
