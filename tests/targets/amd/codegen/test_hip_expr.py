import re

import pytest
from amd_programs import gemm
from hip_text import printed

import tilelang.language as T


def test_loads_of_loops_add_an_offset_of_the_thread_to_a_resource_of_all() -> None:
    text = printed(gemm(160, rows=256), "gfx942").text
    assert "const tl_resource A_from = tl_kept_resource_of(&A[by * 128 * 160 + 32]);" in text
    assert "A_offset += 64u, B_offset += 8192u)" in text
    assert "tl_buffer_load<uint32x4_t>(A_from, A_offset, v * 20480u)" in text


def test_loads_to_lds_do_so_too() -> None:
    text = printed(gemm(160, rows=256), "gfx950").text
    assert re.search(r"tl_buffer_to_lds_16x2\(&B_s\[.*, B_from, B_offset, 0, B_offset, 0\);", text)
    assert "A_at" not in text


def test_lanes_that_load_nothing_to_lds_have_an_offset_beyond_the_resource() -> None:
    ragged = printed(gemm(136, rows=250), "gfx950").text
    loads = re.findall(r"tl_buffer_to_lds_16x2\(&([AB])_s.*", ragged)
    assert ["A", "B"] == loads
    assert "B_from, tl_offset_if(0 < limit, B_offset), 0, tl_offset_if(4 < limit, B_offset), 0);" in ragged


def test_resources_move_where_offsets_of_all_iterations_have_no_bound() -> None:
    rows = T.dynamic("rows")

    @T.prim_func
    def main(A: T.Tensor((rows, 128), "float16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            tile, sums = T.alloc_shared((64, 128), "float16"), T.alloc_fragment((128, 128), "float32")
            T.clear(sums)
            for step in T.Pipelined(rows // 64, num_stages=2):
                T.copy(A[step * 64, 0], tile)
                T.gemm(tile, tile, sums, transpose_A=True)
            T.copy(sums, C)

    text = printed(main, "gfx942").text
    assert "A_at += 8192)" in text
    assert "const tl_resource A_from = tl_resource_of(A_at);" in text[text.index("for (int step") :]


def test_a_load_beyond_the_tensor_gives_zeros_without_a_branch() -> None:
    ragged = printed(gemm(136, rows=250), "gfx942").text
    loads = re.findall(r"tl_buffer_load\w*<uint32x4_t>\(.*?A_from", ragged)
    assert loads
    assert all(re.fullmatch(r"tl_buffer_load_if<uint32x4_t>\(.* < .*, A_from", load) for load in loads)


def test_another_safe_value_needs_a_branch() -> None:
    @T.prim_func
    def main(A: T.Tensor((250, 160), "float16"), B: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            tile, sums = T.alloc_shared((128, 32), "float16"), T.alloc_fragment((128, 128), "float32")
            T.annotate_safe_value({A: 1.0})
            T.clear(sums)
            for step in T.Pipelined(5, num_stages=2):
                T.copy(A[128, step * 32], tile)
                T.gemm(tile, tile, sums, transpose_B=True)
            T.copy(sums, B)

    text = printed(main, "gfx942").text
    assert "tl_buffer_load_if<" not in text[text.index("main_kernel") :]


def test_loads_after_the_loop_name_the_tensor() -> None:
    text = printed(gemm(160), "gfx942").text
    assert "A_from" not in text[text.rindex("tl_mfma") :]


@pytest.mark.parametrize(("rows", "by_bounds"), [(24, True), (2**26, False)])
def test_gathered_rows_beyond_the_tensor_are_zeros_without_a_branch(rows: int, by_bounds: bool) -> None:
    """A resource spans 2 GiB: of larger tensors rows are loaded by branches."""

    @T.prim_func
    def main(A: T.Tensor((rows, 32), "float16"), index: T.Tensor((64,), "int32"), C: T.Tensor((64, 32), "float16")):
        with T.Kernel(1, threads=64):
            held = T.alloc_fragment((64, 32), "float16")
            for i, j in T.Parallel(64, 32):
                held[i, j] = A[index[i], j]
            T.copy(held, C)

    text = printed(main, "gfx942").text
    body = text[text.index("main_kernel") :]
    assert by_bounds == ("tl_resource_of(A)" in body)
    assert by_bounds != ("*(const uint32x4_t*)&A[" in body)


def test_gathered_rows_have_the_safe_value_by_a_branch() -> None:
    @T.prim_func
    def main(A: T.Tensor((24, 32), "float16"), index: T.Tensor((64,), "int32"), C: T.Tensor((64, 32), "float16")):
        with T.Kernel(1, threads=64):
            T.annotate_safe_value({A: 1.0})
            for i, j in T.Parallel(64, 32):
                C[i, j] = A[index[i], j]

    assert "tl_resource_of(A)" not in printed(main, "gfx942").text
