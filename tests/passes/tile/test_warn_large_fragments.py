import pytest
from warps import blocked

import tilelang.language as T
from tilelang.dtypes import as_dtype
from tilelang.errors import ProgramWarning
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import as_expr
from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.passes.tile.warn_large_fragments import registers
from tilelang.targets.target import Target

SM80, GFX942 = Target("cuda", "sm_80"), Target("hip", "gfx942")


def gemm(M, N, threads, accumulator="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, 32), "float16"), B: T.Tensor((32, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(1, threads=threads) as bx:
            A_s = T.alloc_shared((M, 32), "float16")
            B_s = T.alloc_shared((32, N), "float16")
            C_f = T.alloc_fragment((M, N), accumulator)
            T.copy(A, A_s)
            T.copy(B, B_s)
            T.gemm(A_s, B_s, C_f, clear_accum=True)
            T.copy(C_f, C)

    return main


def lower(func, target=SM80):
    return lowered(func, target, CompileOptions())


def warned(func, target=SM80):
    with pytest.warns(ProgramWarning) as caught:
        lower(func, target)
    (warning,) = caught
    return str(warning.message)


def test_an_accumulator_that_no_thread_can_hold_is_a_warning_with_the_threads_that_would_do():
    text = warned(gemm(256, 192, 128))
    assert text.startswith(
        "T.gemm: the accumulator 'C_f' needs 384 registers of each of 128 threads, but may have 255: at least 516 "
        "bytes of each thread are in local memory, which is slow\n"
    )
    assert "note: 'C_f' is (256, 192) of float32\n" in text
    assert text.endswith("\nhint: threads=256 leaves 192 to each thread; or make the tile smaller")
    other = warned(gemm(256, 192, 128), GFX942)
    assert "needs 384 registers of each of 128 threads, but may have 256: at least 512 bytes" in other


def test_threads_that_would_have_no_register_left_are_not_recommended():
    assert warned(gemm(256, 256, 128)).endswith("\nhint: make the tile smaller")
    assert warned(gemm(256, 256, 128), GFX942).endswith("\nhint: threads=256 leaves 256 to each thread; or make the tile smaller")


@pytest.mark.parametrize("target", [SM80, GFX942])
def test_more_threads_do_not_help_an_array_that_each_of_them_has(target):
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), I: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            table = T.alloc_local((600,), "float32")
            for i in T.serial(600):
                table[i] = i
            for i in T.Parallel(128):
                A[i] = table[I[i]]

    text = warned(main, target)
    assert text.startswith("array 'table' needs 600 registers of each thread, but may have 25")
    assert text.endswith("\nhint: make the array smaller")


def test_more_threads_or_narrower_values_fit():
    assert lower(gemm(256, 256, 512))
    assert lower(gemm(256, 128, 128, "float16"))


def test_where_no_number_of_threads_would_do_only_a_smaller_tile_helps():
    assert warned(gemm(1024, 512, 1024)).endswith("\nhint: make the tile smaller")


def test_a_fragment_that_no_thread_can_hold_is_a_warning_where_it_is_made():
    @T.prim_func
    def main(A: T.Tensor((512, 256), "float32"), B: T.Tensor((512, 256), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((512, 256), "float32")
            T.copy(A, tile)
            T.copy(tile, B)

    line = main.loc.line + 2
    gutter = " " * len(str(line))
    assert (
        "fragment 'tile' needs 1024 registers of each of 128 threads, but may have 255: at least 3076 bytes of "
        "each thread are in local memory, which is slow\n"
        f"{gutter}--> {__file__}:{line}:13\n"
        f'{line} |             tile = T.alloc_fragment((512, 256), "float32")\n'
        f"{gutter} |             {'^' * 46}\n"
        "note: 'tile' is (512, 256) of float32\n"
        "hint: make the tile smaller"
    ) == warned(main)


@pytest.mark.parametrize(("dtype", "expected"), [("float32", 16), ("float64", 32), ("float16", 8), ("int8", 4)])
def test_registers_are_counted_in_words(dtype, expected):
    buffer = Buffer("F", (as_expr(16), as_expr(32)), as_dtype(dtype), Scope.FRAGMENT)
    assert expected == registers(buffer, blocked((16, 32), 32))


