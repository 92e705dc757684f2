import numpy as np
import pytest

import tilelang.language as T
from tilelang.dtypes import as_dtype
from tilelang.errors import NoLowering
from tilelang.layout import Layout
from tilelang.layout.shared_memory import offsets
from tilelang.targets.nvidia.isa.mma import ATOMS
from tilelang.targets.nvidia.language import mma_index


@pytest.mark.parametrize(("columns", "dtype"), [(16, "float16"), (32, "float16"), (64, "float16"), (128, "int8")])
def test_a_swizzled_tile_is_the_one_of_the_layout(columns: int, dtype: str) -> None:
    by_hand = Layout((16, columns), lambda i, j: mma_index.get_swizzle_layout(i, j, columns, dtype))
    named = T.make_swizzled_layout(T.Tensor((16, columns), dtype))
    assert np.array_equal(offsets(named), offsets(by_hand))


def test_narrower_modes_make_more_boxes() -> None:
    assert (3, 5, 8) == mma_index.get_swizzle_layout(5, 48, 64, "float16", swizzle_bytes=32)
    assert (0, 5, 16 * 4 + 3) == mma_index.get_swizzle_layout(5, 16 + 3, 128, "int8")
    with pytest.raises(AssertionError, match="rows of 16 bytes are no multiple of 32"):
        mma_index.get_swizzle_layout(0, 0, 8, "float16")
    with pytest.raises(AssertionError, match="swizzle_bytes is 16"):
        mma_index.get_swizzle_layout(0, 0, 64, "float16", 16)


def test_sizes_of_pieces() -> None:
    assert (16, 16, 16) == mma_index.get_mma_micro_size("float16")
    assert (16, 16, 32) == mma_index.get_mma_micro_size("int8") == mma_index.get_mma_micro_size(T.float8_e4m3fn)


def test_the_sums_lie_as_two_instructions_leave_them() -> None:
    atom = next(x for x in ATOMS if (x.shape, str(x.c_dtype)) == ((16, 8, 16), "float32"))
    for lane in range(32):
        for place in range(8):
            row, column = atom.c.coordinates(lane, place % 4)
            assert (row, column + place // 4 * 8) == mma_index.mma_store_index_map(lane, place)


@pytest.mark.parametrize(
    ("name", "dtype", "columns"),
    [("16x8_to_mma_32x4", "tfloat32", 8), ("16x16_to_mma_32x8", "float16", 16), ("16x32_to_mma_32x16", "int8", 32)],
)
def test_operands_lie_as_the_instruction_reads_them(name: str, dtype: str, columns: int) -> None:
    atom = next(x for x in ATOMS if (x.shape, str(x.a_dtype)) == ((16, 8, columns), dtype))
    of_a, of_b = (getattr(mma_index, f"shared_{name}_layout_sr_{matrix}") for matrix in "ab")
    per_lane = 16 * columns // 32
    for lane in range(32):
        for place in range(per_lane):
            assert (lane, place) == of_a(*atom.a.coordinates(lane, place))
            column, k = atom.b.coordinates(lane, place % (per_lane // 2))
            assert (lane, place) == of_b(column + place // (per_lane // 2) * 8, k)


def test_rows_of_ldmatrix() -> None:
    lanes = range(32)
    straight = [mma_index.get_ldmatrix_offset("A", lane, 0, 100) for lane in lanes]
    assert [lane % 16 * 100 + lane // 16 * 8 for lane in lanes] == straight
    turned = [mma_index.get_ldmatrix_offset("B", lane, 0, 100, "float16", True) for lane in lanes]
    assert [(lane // 16 * 8 + lane % 8) * 100 + lane % 16 // 8 * 8 for lane in lanes] == turned
    narrow = [mma_index.get_ldmatrix_offset("A", lane, 1, 100, "int8") for lane in lanes]
    assert [lane % 16 * 100 + lane // 16 * 16 + 1 for lane in lanes] == narrow
    for matrix, dtype, transposed in (("C", "float16", False), ("B", "int8", False), ("A", "float64", False)):
        with pytest.raises(ValueError):
            mma_index.get_ldmatrix_offset(matrix, 0, 0, 64, dtype, transposed)


def test_metadata_of_sparse_operands() -> None:
    assert ((1, 2), (2, 4)) == tuple(mma_index.GROUP_CONFIG[as_dtype(d)] for d in ("float32", "int8"))
    pairs = (("float16", "int16"), ("float32", "int16"), ("int8", "int32"), ("float16", "uint8"))
    assert [16, 8, 32, 8] == [mma_index.get_e_factor(*pair) for pair in pairs]
    assert [2, 2, 1, 1] == [
        mma_index.get_e_replicate_factor(d) for d in ("float16", "float32", "int8", "float8_e4m3fn")
    ]
    with pytest.raises(ValueError, match="sparse gemms have no operands of float64"):
        mma_index.get_e_factor("float64", "int16")


def test_descriptors_are_internal() -> None:
    with pytest.raises(NoLowering, match="internal to published TileLang"):
        mma_index.compute_gmma_descriptor(None, False)


def test_names_where_programs_import_them() -> None:
    from tilelang.cuda.intrinsics import TensorCoreIntrinEmitter, get_swizzle_layout, make_mma_swizzle_layout
    from tilelang.cuda.intrinsics.layout.mma_layout import get_swizzle_layout as again
    from tilelang.cuda.intrinsics.layout.utils import get_mma_micro_size
    from tilelang.cuda.intrinsics.macro.mma_macro_generator import INT4TensorCoreIntrinEmitter
    from tilelang.cuda.intrinsics.sparse_layout import GROUP_CONFIG

    assert get_swizzle_layout is again is T.get_swizzle_layout
    assert make_mma_swizzle_layout is T.make_mma_swizzle_layout
    assert get_mma_micro_size is T.get_mma_micro_size
    assert TensorCoreIntrinEmitter is T.TensorCoreIntrinEmitter
    assert issubclass(INT4TensorCoreIntrinEmitter, TensorCoreIntrinEmitter)
    assert GROUP_CONFIG is mma_index.GROUP_CONFIG
