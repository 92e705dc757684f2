"""Loads that fill a tile in turn in an iteration have tiles of their own where that computes the same."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir.printer import to_text
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, For, Launch
from tilelang.ir.visit import loads_of, walk
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import PassContext
from tilelang.passes.tile.separate_fills import PASS
from tilelang.targets.target import Target

N = 3


def kernel(what="", *, stages=2, rows=64, m=100):
    """C += A_k W + B_k W, through one tile for A and B, with something that decides whether it may be two."""

    @T.prim_func
    def main(A: T.Tensor((m, 64 * N), "float16"), B: T.Tensor((m, 64 * N), "float16"), C: T.Tensor((m, 64), "float32")):
        with T.Kernel(T.ceildiv(m, rows), threads=128) as by:
            S, W = T.alloc_shared((rows, 64), "float16"), T.alloc_shared((64, 64), "float16")
            if what == "annotated":
                T.annotate_layout({S: T.make_swizzled_layout(S)})
            C_l = T.alloc_fragment((rows, 64), "float32")
            T.clear(C_l)
            if what == "read from the iteration before":
                T.clear(S)
            for i, j in T.Parallel(64, 64):
                W[i, j] = (i + j) % 3
            for k in T.Pipelined(N, num_stages=stages):
                if what == "read from the iteration before":
                    T.gemm(S, W, C_l)
                T.copy(A[by * rows, k * 64], S)
                if what == "changed":
                    for i, j in T.Parallel(rows, 64):
                        S[i, j] = T.max(S[i, j] * 2, 0) + S[i, j]
                if what == "changed in part":
                    for i, j in T.Parallel(rows, 32):
                        S[i, j] = S[i, j] * 2
                if what != "unread":
                    T.gemm(S, W, C_l)
                if what == "half of it":
                    T.copy(B[by * rows, k * 64], S[0 : rows // 2, :])
                elif what == "in a branch":
                    if k > 0:
                        T.copy(B[by * rows, k * 64], S)
                else:
                    T.copy(B[by * rows, k * 64], S)
                T.gemm(S, W, C_l)
                if what == "a third one":
                    T.copy(A[by * rows, 0], S)
                    T.gemm(S, W, C_l)
            if what == "read behind the loop":
                T.gemm(S, W, C_l)
            T.copy(C_l, C[by * rows, 0])

    return main


def separated(func, arch="sm_90a"):
    return PASS.run(func, PassContext(target=Target("hip" if arch.startswith("gfx") else "cuda", arch)))


SEPARATED = {
    "": 2, "changed in part": 2, "a third one": 3, "unread": 2, "read from the iteration before": 2, "read behind the loop": 2,
}  # fmt: skip


@pytest.mark.parametrize("what", SEPARATED)
def test_each_load_has_a_tile_of_its_own_and_what_it_brings_is_read_there(what):
    made = separated(kernel(what))
    loads = [s for s in walk(made.body) if isinstance(s, Copy) and s.src.buffer.name in "AB"]
    tiles = [copy.dst.buffer for copy in loads]
    assert SEPARATED[what] == len(loads) == len(set(tiles))
    assert [*(f"S_{n}" for n in range(1, len(loads))), "S"] == [tile.name for tile in tiles]
    assert set(tiles) <= {s.buffer for s in walk(made.body) if isinstance(s, Alloc)}
    (note,) = next(s for s in walk(made.body) if isinstance(s, Launch)).plan.notes
    assert "T.Pipelined: each load of 'S' in an iteration has a tile of its own" == note.text


def test_what_the_last_load_brings_is_read_in_the_next_iteration_too():
    made = separated(kernel("read from the iteration before"))
    assert ["S", "S_1", "S"] == [s.a.buffer.name for s in walk(made.body) if isinstance(s, Gemm)]


@pytest.mark.parametrize(("arch", "tiles"), [("sm_90a", ["S_1", "S_2", "S_2", "S", "S"]), ("sm_80", ["S_1", "S_1", "S_1", "S", "S"])])
def test_threads_write_another_tile_than_a_producer(arch, tiles):
    made = separated(kernel("changed"), arch)
    (loop,) = (s for s in walk(made.body) if isinstance(s, For) and s.pipeline is not None)
    load, change, gemm, last_load, last_gemm = flat_statements(loop.body)
    found = [load.dst.buffer, change.body.buffer, gemm.a.buffer, last_load.dst.buffer, last_gemm.a.buffer]
    assert tiles == [tile.name for tile in found]
    assert {load.dst.buffer} == {each.buffer for each in loads_of(change.body.value)}


def test_tiles_that_threads_compute_have_a_single_stage():
    func = kernel("changed", rows=320)  # five tiles of 40 KiB, and one of 8
    assert separated(func) is not func


def test_loops_without_a_gemm_have_no_producer():
    @T.prim_func
    def main(A: T.Tensor((64, 64 * N), "float16")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 64), "float16")
            for k in T.Pipelined(N, num_stages=2):
                T.copy(A[0, k * 64], S)
                for i, j in T.Parallel(64, 64):
                    S[i, j] = S[i, j] * 2
                T.copy(S, A[0, k * 64])

    assert separated(main) is main


def test_tiles_whose_size_the_launch_tells_may_not_fit():
    rows = T.dynamic("rows")

    @T.prim_func
    def main(A: T.Tensor((rows, 64 * N), "float16"), B: T.Tensor((rows, 64 * N), "float16"), C: T.Tensor((rows, 64), "float32")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((rows, 64), "float16")
            for k in T.Pipelined(N, num_stages=2):
                T.copy(A[0, k * 64], S)
                for i, j in T.Parallel(rows, 64):
                    C[i, j] += S[i, j]
                T.copy(B[0, k * 64], S)
                for i, j in T.Parallel(rows, 64):
                    C[i, j] += S[i, j]

    assert separated(main) is main


def test_loads_keep_their_tile_where_the_program_hands_it_to_other_threads():
    @T.prim_func
    def main(A: T.Tensor((64, 64 * N), "float16"), B: T.Tensor((64, 64 * N), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256):
            S, C_l = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            full, empty = T.alloc_barrier([128, 128]), T.alloc_barrier([128, 128])
            with T.ws(1):
                T.clear(C_l)
            for k in T.Pipelined(N, num_stages=2):
                with T.ws(0):
                    T.barrier_wait(empty[1], (k + 1) % 2)
                    T.copy(A[0, k * 64], S)
                    T.barrier_arrive(full[0])
                    T.barrier_wait(empty[0], k % 2)
                    T.copy(B[0, k * 64], S)
                    T.barrier_arrive(full[1])
                with T.ws(1):
                    for part in T.serial(2):
                        T.barrier_wait(full[part], k % 2)
                        for i, j in T.Parallel(64, 64):
                            C_l[i, j] += (part + 1) * S[i, j]
                        T.barrier_arrive(empty[part])
            with T.ws(1):
                T.copy(C_l, C)

    a, b = np.random.default_rng(3).integers(-2, 3, (2, 64, 64 * N)).astype(np.float16)
    c = np.full((64, 64), np.nan, np.float32)
    tilelang.compile(main, target="sm_90a", execution_backend="simulator")(a, b, c)
    np.testing.assert_array_equal(c, (a + 2.0 * b).reshape(64, N, 64).sum(axis=1))


@pytest.mark.parametrize("what", ["annotated", "half of it", "in a branch"])
def test_other_loads_keep_their_tile(what):
    func = kernel(what)
    assert separated(func) is func, to_text(separated(func).body)


@pytest.mark.parametrize(
    ("arch", "stages", "rows", "expected"),
    [
        ("sm_90a", 1, 64, True), ("sm_80", 1, 64, False), ("sm_80", 2, 64, True), ("sm_90a", 0, 64, False),
        ("sm_75", 2, 256, False), ("sm_90a", 2, 256, True), ("sm_80", 2, 256, True), ("sm_80", 3, 256, False),
        ("gfx942", 2, 64, True), ("gfx942", 2, 256, False),
    ],
)  # fmt: skip
def test_only_where_loads_run_ahead_and_all_tiles_fit(arch, stages, rows, expected):
    func = kernel(stages=stages, rows=rows)
    assert expected is (separated(func, arch) is not func)


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", {"kind": "hip", "arch": "gfx942"}])
@pytest.mark.parametrize("what", [*SEPARATED, "changed"])
def test_the_loop_computes_the_same(what, target):
    func, rng = kernel(what), np.random.default_rng(2)
    a, b = rng.integers(-2, 3, (2, 100, 64 * N)).astype(np.float16)
    results = []
    for backend, machine in (("reference", "cpu"), ("simulator", target)):
        made = tilelang.compile(func, target=machine, execution_backend=backend)
        if machine == "sm_90a" and what in ("", "changed", "a third one"):
            assert "a producer of" in made.explain()
        results.append(np.full((100, 64), np.nan, np.float32))
        made(a, b, results[-1])
    np.testing.assert_array_equal(*results)
