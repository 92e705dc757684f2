from typing import Any

import pytest
from fake_cuda import EncodedMap, FakeCuda, map_text
from hypothesis import given
from hypothesis import strategies as st

from tilelang.codegen.source import TensorMapText
from tilelang.dtypes import as_dtype
from tilelang.errors import CompilerBug, DriverError
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver
from tilelang.targets.nvidia.runtime.tensor_map import TensorMapFormula, TensorMaps, TensorMapShape, data_type, encoder


@pytest.mark.parametrize(
    ("dtype", "code"),
    [
        ("float16", 6), ("bfloat16", 9), ("float32", 7), ("tfloat32", 7), ("float64", 8), ("int32", 3), ("uint32", 2),
        ("int64", 5), ("uint64", 4), ("int16", 1), ("uint16", 1), ("int8", 0), ("uint8", 0), ("bool", 0),
        ("float8_e4m3fn", 0), ("float8_e5m2", 0), ("int4", 0), ("float16x2", 2),
    ],
)  # fmt: skip
def test_elements_are_moved_by_a_type_of_their_size(dtype: str, code: int) -> None:
    assert code == data_type(as_dtype(dtype))


def test_only_elements_of_tfloat32_are_rounded() -> None:
    assert [11, 7] == [data_type(as_dtype(name), rounds=True) for name in ("tfloat32", "float32")]


def test_elements_of_more_than_8_bytes_are_our_fault() -> None:
    with pytest.raises(CompilerBug, match="float32x4"):
        data_type(as_dtype("float32x4"))


def shape(dims: tuple[int, ...] = (64, 32), strides: tuple[int, ...] = (256,), **fields: Any) -> TensorMapShape:
    return TensorMapShape(map_text(**fields), "A", dims, strides)


def test_sizes_come_from_names() -> None:
    formula = TensorMapFormula(map_text(dims=("K_div8 * 8", "M"), strides=("K_div8 * 16",)), "A")
    assert {"K_div8", "M"} == formula.used_names
    made = formula.shape({"K_div8": 5, "M": 7, "other": 1})
    assert ("A", (40, 7), (80,)) == (made.name, made.dims, made.strides)


@pytest.mark.parametrize("text", [map_text(strides=()), map_text(box=(64,)), map_text(swizzle=16)])
def test_maps_that_contradict_themselves_are_our_fault(text: Any) -> None:
    with pytest.raises(CompilerBug, match="the tensor map of 'A' is inconsistent"):
        TensorMapFormula(text, "A")


@pytest.mark.parametrize(
    ("map_shape", "address", "why"),
    [
        (shape(), 0x1008, "tensors begin at multiples of 16 bytes, not at 4104"),
        (shape((64, 0)), 0, "a dimension has 1 to 4294967296 elements, not 0"),
        (shape(strides=(72,)), 0, "strides are multiples of 16 bytes below 1099511627776, not 72"),
        (shape(box=(64, 257)), 0, "a side of a box has 1 to 256 elements, not 257"),
        (
            shape(box=(128, 8)), 0,
            "the rows of a box fit into the span of its swizzle, 128 bytes, but these have 256",
        ),
    ],
)  # fmt: skip
def test_what_the_driver_would_refuse_is_told_in_words(map_shape: TensorMapShape, address: int, why: str) -> None:
    assert f"no tensor map of 'A': {why}" == map_shape.refusal(address)


@pytest.mark.parametrize(
    "map_shape",
    [shape(), shape(strides=(0,)), shape(strides=(16,)), shape((60, 5)), shape(box=(32, 8)), shape(box=(256, 1), swizzle=0)],
)
def test_all_else_is_taken(map_shape: TensorMapShape) -> None:
    assert "" == map_shape.refusal(0x1000)


@pytest.fixture
def cuda() -> FakeCuda:
    return FakeCuda()


def maps_of(cuda: FakeCuda, of: TensorMapShape) -> TensorMaps:
    driver = CudaDriver(cuda)
    return TensorMaps(of, driver.map_encoder("cuTensorMapEncodeTiled"), driver.error)


@given(st.integers(1, 5), st.data())
def test_the_driver_gets_what_was_said(rank: int, data: Any) -> None:
    def numbers(count: int, most: int) -> tuple[int, ...]:
        return tuple(data.draw(st.lists(st.integers(1, most), min_size=count, max_size=count)))

    dims, strides, box = numbers(rank, 2**32), numbers(rank - 1, 2**39), numbers(rank, 256)
    swizzle, dtype = data.draw(st.sampled_from([(0, 0), (32, 1), (64, 2), (128, 3)])), data.draw(st.sampled_from(["float32", "int8"]))
    text = map_text(box=box, swizzle=swizzle[0], dtype=dtype)
    maps = maps_of(FakeCuda(), TensorMapShape(text, "A", dims, strides))
    code = {"float32": 7, "int8": 0}[dtype]
    assert EncodedMap(4096, dims, strides, box, (1,) * rank, code, 0, swizzle[1], 2, 0) == EncodedMap.of(maps[4096])


def test_a_map_is_encoded_once_per_address(cuda: FakeCuda) -> None:
    maps = maps_of(cuda, shape())
    for _ in range(3):
        assert [4096, 8192] == [EncodedMap.of(maps[address]).address for address in (4096, 8192)]
    assert 2 == cuda.calls.count("cuTensorMapEncodeTiled")


def test_what_is_remembered_has_an_end(cuda: FakeCuda) -> None:
    maps = maps_of(cuda, shape())
    for n in range(3000):
        assert 16 * n == EncodedMap.of(maps[16 * n]).address
    assert len(maps) <= 1024


def test_what_the_driver_refuses_all_the_same_names_everything(cuda: FakeCuda) -> None:
    cuda.failing["cuTensorMapEncodeTiled"] = 1
    maps = maps_of(cuda, shape())
    with pytest.raises(DriverError) as caught:
        maps[4096]
    assert (
        "cuTensorMapEncodeTiled of 'A' at 0x1000, dims (64, 32), strides (256,) bytes, box (64, 32), swizzle 128 failed "
        "with CUDA_ERROR_1 (1): so it is"
    ) == str(caught.value).split("\n")[0]
    assert {} == maps


def test_a_driver_without_maps_says_what_to_do(monkeypatch: pytest.MonkeyPatch, cuda: FakeCuda) -> None:
    monkeypatch.delattr(FakeCuda, "cuTensorMapEncodeTiled")
    with pytest.raises(DriverError, match="too old for tensor maps: CUDA 12.0") as caught:
        CudaDriver(cuda).map_encoder("cuTensorMapEncodeTiled")
    assert "tl.disable_tma_lower" in caught.value.hint


def test_a_map_of_pixels_is_encoded_by_a_function_of_its_own(cuda: FakeCuda) -> None:
    text = TensorMapText(0, as_dtype("float16"), ("C", "W", "9", "2"), ("C * 2", "W * C * 2", "9 * W * C * 2"),
                         (32, 64), 64, ((-1, 0, 2), (-3, 1, 4)))  # fmt: skip
    of = TensorMapFormula(text, "A").shape({"C": 32, "W": 5})
    assert "" == of.refusal(4096)
    maps = TensorMaps(of, CudaDriver(cuda).map_encoder(encoder(text)), CudaDriver(cuda).error)
    assert 128 == len(maps[4096])
    assert [
        (6, 4096, [32, 5, 9, 2], [64, 320, 2880], [-1, -3], [0, 1], 32, 64, [1, 2, 4, 1], 0, 2, 2, 0)
    ] == cuda.image_maps
