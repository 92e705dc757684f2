"""Tiles that pass registers are loaded in parts, where whole ones leave none for the operands of a gemm."""

import numpy as np
import pytest
from gpu import assert_simulates, lower_func
from hip_kernels import needs_clang

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk


def gemm(
    k=192, *, depth=64, block=128, threads=128, stages=2, dtype="float16", accum="float32", transpose_a=False,
    transpose_b=False, also="",
):  # fmt: skip
    """A product of one tile of sums."""
    shapes = ((k, block) if transpose_a else (block, k)), ((block, k) if transpose_b else (k, block))
    tiles = ((depth, block) if transpose_a else (block, depth)), ((block, depth) if transpose_b else (depth, block))

    @T.prim_func
    def main(A: T.Tensor(shapes[0], dtype), B: T.Tensor(shapes[1], dtype), C: T.Tensor((block, block), accum)):
        with T.Kernel(1, threads=threads):
            a, b = T.alloc_shared(tiles[0], dtype), T.alloc_shared(tiles[1], dtype)
            c = T.alloc_fragment((block, block), accum)
            if also == "layout":
                T.annotate_layout({a: T.Layout(tiles[0], lambda i, j: (i, j))})
            T.clear(c)
            placed = {"order": [0, 1, 2], "stage": [0, 0, 0]} if also == "order" else {"num_stages": stages}
            for i in T.Pipelined(T.ceildiv(k, depth), **placed):
                T.copy(A[i * depth, 0] if transpose_a else A[0, i * depth], a)
                T.copy(B[0, i * depth] if transpose_b else B[i * depth, 0], b)
                T.gemm(a, b, c, transpose_A=transpose_a, transpose_B=transpose_b)
                if also == "elements":
                    for row, column in T.Parallel(block, block):
                        c[row, column] += T.cast(a[row, 0], accum) * 0
            if also == "after":
                T.copy(a, A[0, 0])
            T.copy(c, C)

    return main


def parts(func, arch):
    """What the launch says of tiles in parts."""
    (launch,) = (stmt for stmt in walk(lower_func(func, arch).body) if isinstance(stmt, Launch))
    return [note.text for note in launch.plan.notes if "parts" in note.text]


HALVES = ["T.Pipelined: tiles are loaded in 2 parts of 32 along K, which leave registers for operands"]


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1151", "gfx1200"])
def test_sums_and_whole_tiles_leave_no_registers_on_rdna(arch):
    assert HALVES == parts(gemm(), arch)


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("gfx942", {"threads": 256}),  # registers suffice
        ("gfx950", {"threads": 256}),  # and tiles do not pass them
        ("gfx1100", {"threads": 256}),
        ("gfx1100", {"block": 64}),
        ("gfx1100", {"block": 256, "threads": 256}),  # sums alone are too many
        ("gfx1100", {"depth": 32}),  # halves of rows would be less than memory transfers
        ("gfx1100", {"dtype": "int8", "accum": "int32", "depth": 128}),  # threads could not transpose halves
        ("gfx1100", {"stages": 1}),  # nothing is in flight
        ("gfx1100", {"also": "order"}),
        ("gfx1100", {"also": "layout"}),
        ("gfx1100", {"also": "elements"}),
        ("gfx1100", {"also": "after"}),
    ],
)
def test_other_tiles_stay_whole(arch, options):
    assert [] == parts(gemm(**options), arch)


def test_tiles_too_deep_for_registers_are_loaded_in_more_parts():
    assert ["4 parts of 32"] == [text.partition("in ")[2].partition(" along")[0] for text in parts(gemm(depth=128), "gfx1100")]


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"k": 200},  # the last tile is partial
        {"k": 40, "depth": 128},
        {"transpose_a": True, "stages": 3},
        {"transpose_b": True},
        {"dtype": "int8", "accum": "int32", "depth": 256, "k": 320},
    ],
)
def test_the_product_is_the_same(options, arch):
    func = gemm(**options)
    assert parts(func, arch)
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-4, 5, p.buffer.static_shape).astype(p.buffer.dtype.numpy) for p in func.params)
    left, right = (a.T if options.get("transpose_a") else a), (b.T if options.get("transpose_b") else b)
    made = assert_simulates(func, a, b, c, arch=arch)
    np.testing.assert_array_equal(left.astype(np.float32) @ right.astype(np.float32), made[2].astype(np.float32))


def test_indices_may_be_bound_in_the_loop():
    @T.prim_func
    def main(A: T.Tensor((128, 256), "float16"), B: T.Tensor((256, 128), "float16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for i in T.Pipelined(4, num_stages=2):
                first = (3 - i) * 64
                T.copy(A[0, first], a)
                T.copy(B[first, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    assert HALVES == parts(main, "gfx1100")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((128, 256), (256, 128)))
    made = assert_simulates(main, a, b, np.zeros((128, 128), np.float32), arch="gfx1100")
    np.testing.assert_array_equal(a.astype(np.float32) @ b.astype(np.float32), made[2])


@needs_clang
def test_registers_and_lds_hold_half_of_the_tiles() -> None:
    kernel = tilelang.compile(gemm(1024), target={"kind": "hip", "arch": "gfx1100"})
    assert kernel.resources.spill_bytes == 0
    assert kernel.resources.registers <= 216  # with which a SIMD unit holds seven waves
    assert kernel.resources.shared_bytes == 2 * 128 * 32 * 2


def test_loops_without_statements_stay():
    @T.prim_func
    def main(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            for _ in T.Pipelined(4, num_stages=2):
                pass
            for i in T.Parallel(128):
                A[i] = 0

    assert [] == parts(main, "gfx1100")
