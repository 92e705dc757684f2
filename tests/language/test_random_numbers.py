"""Random numbers are those of cuRAND, and each thread draws its own."""

import numpy as np
import pytest
from device_text import compile_cuda, needs_cuda_compiler
from harness import run_everywhere, simulate_on_copies

import tilelang
import tilelang.language as T
from tilelang.errors import NoLowering, ProgramAssertionError, ProgramError, ProgramValueError, ProgramWarning
from tilelang.ir.func import PrimFunc
from tilelang.isa.common.random import PHILOX

# what cuRAND 10.3 gives after curand_init(0x900000007, 3, 48): four numbers of curand, curand_uniform,
# curand_uniform_double, curand_normal and curand_normal_double one after another
CURAND = {
    "curandStatePhilox4_32_10_t": (
        [737756987, 2701571325, 3222305467, 2346127719],
        [0.538047552, 0.814921439, 0.224203542, 0.457947135],
        [0.50657265656627715, 0.67772959661670029, 0.031454272801056504, 0.32979576289653778],
        [0.344172657, -1.41319549, 0.529610634, 1.28747797],
        [0.60746153089266652, -0.62731952001479596, 1.8678489480474862, 0.59205181980523947],
    ),
    "curandStateXORWOW_t": (
        [241667862, 3329754583, 1878386428, 3661627951],
        [0.647214293, 0.738506913, 0.876603365, 0.0143657736],
        [0.77749158800528084, 0.37121370383428881, 0.7240101531653258, 0.15854797059477793],
        [0.467588395, -0.478088558, 1.58701456, -0.203505456],
        [-0.97388857873259094, -1.2824155257465415, -0.63183908834596203, -1.0621885135661313],
    ),
    "curandStateMRG32k3a_t": (
        [1603798155, 1208819827, 3522212406, 3432213476],
        [0.115779772, 0.238552853, 0.965935111, 0.600691795],
        [0.81890924930387021, 0.7798986923878144, 0.82491825367508342, 0.17236508126936434],
        [0.74532795, 0.27486062, -1.85567701, -1.28812504],
        [2.3562930765300782, 0.43549262976125225, 0.18343823926546279, -0.73135147396119105],
    ),
}
KINDS = ("uint32", "float32", "float64", "float32", "float64")


def draws(generator):
    @T.prim_func
    def main(
        seed: T.int64,
        A: T.Tensor((4,), KINDS[0]),
        B: T.Tensor((4,), KINDS[1]),
        C: T.Tensor((4,), KINDS[2]),
        D: T.Tensor((4,), KINDS[3]),
        E: T.Tensor((4,), KINDS[4]),
    ):
        with T.Kernel(1, threads=1) as bx:
            T.rng_init(seed, 3, bx + 48, generator=generator)
            for i, j in T.Parallel(1, 4):
                A[i * 4 + j] = T.rng_rand()
            for i in T.serial(4):
                B[i] = T.rng_rand_float()
            for i in T.Parallel(4):
                C[i] = T.rng_rand_float(bit=64)
            for i in T.Parallel(4):
                D[i] = T.rng_rand_float(dist="normal")
            for i in T.unroll(4):
                E[i] = T.rng_rand_float(64, "normal")

    return main


@pytest.mark.parametrize("generator", list(CURAND))
def test_every_generator_has_the_numbers_of_curand_on_every_executor(generator):
    outputs = [np.zeros(4, kind) for kind in KINDS]
    _, *drawn = run_everywhere(draws(generator), 0x900000007, *outputs, rtol=1e-6, atol=1e-6)
    for expected, actual, kind in zip(CURAND[generator], drawn, KINDS, strict=True):
        np.testing.assert_allclose(actual, np.array(expected, kind), rtol=0 if kind == "uint32" else 1e-6, atol=1e-7)


@needs_cuda_compiler
@pytest.mark.parametrize("generator", list(CURAND))
def test_the_text_compiles(generator):
    kernel = tilelang.compile(draws(generator), target={"kind": "cuda", "arch": "sm_80"})
    assert compile_cuda(kernel.get_kernel_source(), "sm_80")


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_a_thread_draws_for_its_own_elements_in_increasing_order(arch):
    @T.prim_func
    def main(A: T.Tensor((2, 128), "uint32"), B: T.Tensor((2, 32), "uint32"), C: T.Tensor((2,), "uint32")):
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding()
            if bx < 2:
                T.rng_init(7)
            for i in T.Parallel(128):
                A[bx, i] = T.rng_rand()
            B[bx, tx] = T.rng_rand()
            if tx == 0:
                C[bx] = T.rng_rand()

    a, b, c = simulate_on_copies(
        main, [np.zeros((2, 128), np.uint32), np.zeros((2, 32), np.uint32), np.zeros(2, np.uint32)], arch
    )
    threads, places = np.meshgrid(np.arange(64, dtype=np.uint64), np.arange(6, dtype=np.uint64), indexing="ij")
    numbers = PHILOX.meaning(np.uint64(7), threads, places).astype(np.uint32)
    for block in range(2):
        own = numbers[32 * block : 32 * block + 32]
        assert own[:, 4].tolist() == b[block].tolist()
        assert own[0, 5] == c[block]
        assert sorted(own[:, :4].ravel().tolist()) == sorted(a[block].tolist())
        for thread in own:
            where = [a[block].tolist().index(number) for number in thread[:4]]
            assert sorted(where) == where


def test_a_state_started_in_a_branch_is_there_behind_it_and_started_anew_begins_again():
    @T.prim_func
    def main(n: T.int32, A: T.Tensor((4, 3), "uint32")):
        with T.Kernel(4, threads=1) as bx:
            if bx < n:
                T.rng_init(42, bx, 1)
            for i in T.serial(2):
                A[bx, i] = T.rng_rand()
            T.rng_init(42, bx, 1)
            A[bx, 2] = T.rng_rand()

    _, drawn = run_everywhere(main, 4, np.zeros((4, 3), np.uint32))
    blocks = np.arange(4, dtype=np.uint64)
    assert drawn[:, 0].tolist() == drawn[:, 2].tolist() == PHILOX.meaning(42, blocks, 1).tolist()
    assert drawn[:, 1].tolist() == PHILOX.meaning(42, blocks, 2).tolist()


def test_mistakes_say_what_to_write(stager):
    with pytest.raises(ProgramError, match="T.rng_rand: no generator was started"):
        T.rng_rand()
    with pytest.raises(ProgramAssertionError, match="T.rng_init: there is no generator 'mersenne'"):
        T.rng_init(0, 0, generator="mersenne")
    T.rng_init(0, 0)
    with pytest.raises(ProgramValueError, match="come from 'curandStatePhilox4_32_10_t' already"):
        T.rng_init(0, 0, generator="curandStateXORWOW_t")
    with pytest.raises(ProgramAssertionError, match="T.rng_rand_float: bit is 16"):
        T.rng_rand_float(16)
    with pytest.raises(ProgramAssertionError, match="T.rng_rand_float: there is no distribution 'poisson'"):
        T.rng_rand_float(dist="poisson")


def test_a_sequence_for_each_thread_needs_a_gpu_and_says_what_to_write():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1) as _:
            T.rng_init(7)
            A[0] = T.rng_rand_float()

    with pytest.raises(NoLowering) as caught:
        tilelang.compile(main, execution_backend="reference", target="cpu")
    assert "T.rng_init without seq: is for single GPU threads, and target cpu has none" == caught.value.message
    assert "name the sequence: T.rng_init(seed, bx), or T.rng_init(seed, i) in a T.Parallel loop over i" == caught.value.hint


def drawn(where: str, threads: int = 64) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), seed: T.int32):
        with T.Kernel(1, threads=threads) as bx:
            first = bx * 64
            if where == "outside":
                T.rng_init(seed, first)
            elif where == "by thread":
                tx = T.get_thread_binding()
                T.rng_init(seed, first + tx)
            for i in T.Parallel(64):
                if where == "inside":
                    T.rng_init(seed, first + i)
                A[i] = T.rng_rand_float()

    return main


def test_a_loop_whose_threads_all_draw_the_same_numbers_is_warned_of():
    with pytest.warns(ProgramWarning) as caught:
        drawn("outside")
    lines = str(caught[0].message).splitlines()
    assert (
        "T.rng_rand_float: draws in a T.Parallel loop from the sequence that T.rng_init chose outside of it: on a GPU "
        "all 64 threads draw the same numbers"
    ) == lines[0]
    assert "A[i] = T.rng_rand_float()" in lines[2]
    assert "hint: write T.rng_init(seed, i) in the T.Parallel loop over i" == lines[-1]


@pytest.mark.parametrize(("where", "threads"), [("outside", 1), ("inside", 64), ("by thread", 64)])
def test_numbers_that_differ_from_thread_to_thread_are_not_warned_of(where, threads):
    drawn(where, threads)
