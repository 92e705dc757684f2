from amd_programs import gemm
from hip_text import printed


def test_loads_of_loops_add_an_offset_of_the_thread_to_a_pointer_of_all() -> None:
    text = printed(gemm(160, rows=256), "gfx942").text
    assert "const half_t* A_at = &A[by * 128 * 160 + 32];" in text
    assert "A_at += 32, B_at += 4096)" in text
    assert "tl_keep_offset(A_offset);" in text
    assert "*(const uint32x4_t*)((const char*)A_at + (A_offset + v * " in text


def test_loads_after_the_loop_name_the_tensor() -> None:
    text = printed(gemm(160), "gfx942").text
    assert "A_at" not in text[text.rindex("tl_mfma") :]
