import pytest

import tilelang.language as T
from tilelang.dtypes import as_dtype
from tilelang.errors import ProgramError, ResourceError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import as_expr
from tilelang.jit.program import lowered
from tilelang.layout.blocked import blocked
from tilelang.options import CompileOptions
from tilelang.passes.tile.check_registers import registers
from tilelang.target import Target


def product(M, N, threads, accumulator="float32"):
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


def lower(func):
    return lowered(func, Target("cuda", "sm_80"), CompileOptions())


def test_an_accumulator_that_no_thread_can_hold_is_refused_with_the_threads_that_would_do():
    with pytest.raises(ResourceError) as caught:
        lower(product(256, 256, 128))
    assert "T.gemm: the accumulator 'C_f' needs 512 registers of each of 128 threads" in str(caught.value)
    assert caught.value.hint == "threads=512 leaves 128 to each thread; or make the tile smaller"


def test_more_threads_or_narrower_values_fit():
    assert lower(product(256, 256, 512))
    assert lower(product(256, 128, 128, "float16"))


def test_where_no_number_of_threads_would_do_only_a_smaller_tile_helps():
    with pytest.raises(ResourceError) as caught:
        lower(product(1024, 512, 1024))
    assert caught.value.hint == "make the tile smaller"


@pytest.mark.parametrize(("dtype", "expected"), [("float32", 16), ("float64", 32), ("float16", 8), ("int8", 4)])
def test_registers_are_counted_in_words(dtype, expected):
    buffer = Buffer("F", (as_expr(16), as_expr(32)), as_dtype(dtype), Scope.FRAGMENT)
    assert expected == registers(buffer, blocked((16, 32), 32))


def moving(threads, *moves, blocks=None):
    """A kernel in which group n does moves[n]: how many registers, and whether that is more."""

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=threads):
            if blocks is not None:
                T.annotate_min_blocks_per_sm(blocks)
            for group, move in enumerate(moves):
                with T.ws(group):
                    T.set_max_nreg(*move)

    return main


def lower_for_hopper(func):
    return lowered(func, Target("cuda", "sm_90a"), CompileOptions())


@pytest.mark.parametrize(
    ("threads", "moves", "blocks"),
    [
        (384, [(24, False), (240, True), (240, True)], None),
        (384, [(160, False), (168, True)], None),
        (256, [(40, False), (256, True)], None),
        (512, [(32, False), (160, True), (160, True), (160, True)], None),
        (256, [(24, False), (232, True)], 2),
    ],
)
def test_warpgroups_may_ask_for_what_others_free(threads, moves, blocks):
    lower_for_hopper(moving(threads, *moves, blocks=blocks))


@pytest.mark.parametrize(
    ("threads", "moves", "blocks", "message"),
    [
        (384, [(32, False), (240, True), (240, True)], None, "ask for 32 + 240 + 240 = 512 registers of a thread, but have 504"),
        (384, [(24, False), (248, True), (240, True)], None, "24 + 248 + 240 = 512"),
        (256, [(40, False), (240, True)], 2, "40 + 240 = 280 registers of a thread, but have 256 together: 128 each"),
    ],
)
def test_warpgroups_that_ask_for_more_would_wait_for_ever(threads, moves, blocks, message):
    with pytest.raises(ResourceError) as caught:
        lower_for_hopper(moving(threads, *moves, blocks=blocks))
    assert message in str(caught.value)


def test_registers_move_the_way_that_is_said():
    with pytest.raises(ProgramError, match="a thread has 168 registers here, so that 240 are more"):
        lower_for_hopper(moving(384, (240, False)))


def test_who_comes_there_may_not_be_known():
    @T.prim_func
    def main(n: T.int32):
        with T.Kernel(1, threads=384):
            if T.get_thread_binding() < n:
                T.set_max_nreg(240, True)

    lower_for_hopper(main)
