"""Whole thread-level programs on the simulator, and their agreement with the reference interpreter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from tilelang.dtypes import as_dtype
from tilelang.errors import ArgumentError, CompilerBug, DataRace, ReadBeforeWrite, SimulationError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, as_expr, binary, cast, select
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Store
from tilelang.sim.counters import Counters
from tilelang.sim.run import simulate
from tilelang.targets.nvidia.isa.atom import MmaAtom, mma
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT, cp_async
from tilelang.targets.nvidia.isa.ldmatrix import ldmatrix
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.target import Target


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


# -- launches -------------------------------------------------------------------------------------------------
def test_every_thread_of_every_block_runs_the_body(threads):
    out = threads.tensor("out", (2, 3, 4, 64))
    with threads.kernel(4, 3, 2) as (bx, by, bz):
        threads.store(out, (bz, by, bx, threads.thread), bz * 10000 + by * 1000 + bx * 100 + threads.thread)
    result = zeros(2, 3, 4, 64)
    threads.simulate(result)
    z, y, x, t = np.indices(result.shape)
    np.testing.assert_array_equal(result, z * 10000 + y * 1000 + x * 100 + t)


def test_a_block_may_have_part_of_a_warp(threads):
    out = threads.tensor("out", (50,))
    with threads.kernel(1, threads=50):
        threads.store(out, (threads.thread,), threads.thread)
    result = zeros(50)
    threads.simulate(result)
    np.testing.assert_array_equal(result, np.arange(50))


def test_sizes_and_scalars_come_from_the_arguments(threads):
    n = threads.symbol("n")
    a, out = threads.tensor("A", (n,)), threads.tensor("out", (n,))
    scale, shift = threads.scalar("scale", "float32"), threads.scalar("shift", "int32", index=True)
    with threads.kernel((n + 63) // 64) as (bx,):
        i = threads.bind("i", bx * 64 + threads.thread, index=True)
        with threads.branch(i < n - shift):
            threads.store(out, (i,), threads.load(a, i + shift) * scale)
    array = np.arange(150, dtype=np.float32)
    result = zeros(150)
    threads.simulate(array, result, 0.5, 3)
    np.testing.assert_array_equal(result[:147], array[3:] / 2)
    assert 0 == result[147:].sum()


def test_a_grid_of_no_blocks_does_nothing(threads):
    n = threads.symbol("n")
    out = threads.tensor("out", (n,))
    with threads.kernel(n) as (bx,):
        threads.store(out, (bx,), 1)
    threads.simulate(zeros(0))


def test_launches_run_in_order(threads):
    out = threads.tensor("out", (4, 32))
    with threads.kernel(4, threads=32) as (bx,):
        threads.store(out, (bx, threads.thread), bx)
    with threads.kernel(4, threads=32) as (bx,):
        threads.store(out, (3 - bx, threads.thread), threads.load(out, 3 - bx, threads.thread) + 10)
    result = zeros(4, 32)
    threads.simulate(result)
    assert [10, 11, 12, 13] == result[:, 7].tolist()


def test_the_same_seed_gives_the_same_run(threads):
    """Which of two races is met first depends on the order of blocks and warps, and only on that."""

    def message(seed):
        made = type(threads)()
        out = made.tensor("out", (96,))
        with made.kernel(4, threads=96) as (bx,):
            made.store(out, (made.thread,), made.thread + bx)
        with pytest.raises(DataRace) as error:
            made.simulate(zeros(96), seed=seed)
        return error.value.message

    assert [message(seed) for seed in range(6)] == [message(seed) for seed in range(6)]
    assert 1 < len({message(seed) for seed in range(6)})


# -- mistakes of the caller -----------------------------------------------------------------------------------
def test_arguments_must_fit(threads):
    out = threads.tensor("out", (4,))
    with threads.kernel(1, threads=4):
        threads.store(out, (threads.thread,), 1)
    with pytest.raises(ArgumentError, match="expected dtype float32, got float64"):
        threads.simulate(np.zeros(4))
    fixed = zeros(4)
    fixed.flags.writeable = False
    with pytest.raises(ArgumentError, match="argument 'out': is read-only, but the kernel writes it"):
        threads.simulate(fixed)


def test_strides_must_be_of_whole_elements(threads):
    s = threads.symbol("s")
    a = threads.tensor("A", (3,), strides=(s,))
    with threads.kernel(1, threads=1):
        threads.bind("x", threads.load(a, 2))
    records = np.zeros(3, np.dtype([("x", np.float32), ("y", np.int8)]))
    with pytest.raises(ArgumentError, match="expected strides of whole elements"):
        threads.simulate(records["x"])


def test_a_tile_program_is_not_for_the_simulator(program):
    out = program.tensor("out", (4,))
    with program.launch(1):
        program.store(out, (0,), 1)
    with pytest.raises(CompilerBug, match="runs thread-level programs"):
        simulate(program.finish(), (zeros(4),), target=Target("cuda", "sm_80"))


# -- shared memory as planned -----------------------------------------------------------------------------------
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize("use", ["by an operation", "by a copy", "by an atomic"])
def test_what_another_tile_left_in_the_same_bytes_is_not_what_a_tile_holds(arch, use):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            first, second = T.alloc_shared((64, 64), "float32"), T.alloc_shared((64, 64), "float32")
            T.copy(A, first)
            for i, j in T.Parallel(64, 64):
                B[i, j] = first[j, i]
            if use == "by an operation":
                for i, j in T.Parallel(64, 64):
                    B[i, j] = second[j, i] + 1
            elif use == "by a copy":
                T.copy(second, B)
            else:
                for i, j in T.Parallel(64, 64):
                    T.atomic_add(second[j, i], 1)

    kernel = tilelang.compile(main, target=arch, execution_backend="simulator")
    with pytest.raises(ReadBeforeWrite):
        kernel(np.ones((64, 64), np.float32), zeros(64, 64))


def test_tiles_that_share_bytes_race_like_one(threads):
    """A tile is read while another that lies in the same place is written."""
    first, second = (Buffer(name, (as_expr(64),), as_dtype("float32"), Scope.SHARED) for name in ("first", "second"))
    plan = LaunchPlan(shared_offsets=((first, 0), (second, 128)), shared_bytes=384)
    out = threads.tensor("out", (64,))
    t = threads.thread
    with threads.kernel(1, plan=plan):
        threads.store(first, (t,), t)
        threads.sync()
        threads.store(out, (t,), threads.load(first, 63 - t))
        threads.store(second, (t,), t)
    with pytest.raises(DataRace) as error:
        simulate(threads.finish(), (zeros(64),), target=Target("cuda", "sm_80"))
    assert any(f" as '{name}'" in error.value.notes[0].text for name in ("first", "second"))


# -- a product on tensor cores ------------------------------------------------------------------------------------
HALF, SINGLE = as_dtype("float16"), as_dtype("float32")
BLOCK_K, STAGES = 32, 2


def product(p, size, *, tile=64, wait=True, sync=True, swizzle=True):
    """C = A @ B by blocks of 4 warps: copies of the next tile in flight, ldmatrix, mma.sync m16n8k16.

    A product of 256^3 by tiles of 128 takes about 3 seconds of one core of a server.
    """
    a, b, c = p.tensor("A", (size, size), "float16"), p.tensor("B", (size, size), "float16"), p.tensor("C", (size, size))
    atom = mma(MmaAtom((16, 8, 16), HALF, HALF, SINGLE, Feature.MMA_AMPERE))
    t, part, count = p.thread, tile // 2, size // BLOCK_K
    chunk_mask = BLOCK_K // 8 - 1

    def place_a(row, col, stage):
        chunk = col // 8 ^ (row // 2 % 4) & chunk_mask if swizzle else col // 8
        return stage * (tile * BLOCK_K) + row * BLOCK_K + chunk * 8

    def place_b(row, col, stage):
        chunk = col // 8 ^ row % 8 if swizzle else col // 8
        return stage * (tile * BLOCK_K) + row * tile + chunk * 8

    with p.kernel(size // tile, size // tile, threads=128) as (bx, by):
        a_s, b_s = (p.shared(name, (STAGES * tile * BLOCK_K,), "float16") for name in ("A_s", "B_s"))
        rows, columns = part // 16, part // 8
        sums = p.local("sums", (rows * columns * 4,))
        a_r, b_r = p.local("a", (rows * 8,), "float16"), p.local("b", (columns * 4,), "float16")
        with p.serial(0, rows * columns * 4) as i:
            p.store(sums, (i,), 0)
        lane, row0, col0 = t % 32, t // 64 * part, t // 32 % 2 * part

        def load(k, stage):
            for n in range(tile * BLOCK_K // 8 // 128):
                piece = n * 128 + t
                r, q = piece // (BLOCK_K // 8), piece % (BLOCK_K // 8) * 8
                p.call(cp_async(16), p.at(a_s, place_a(r, q, stage)), p.at(a, by * tile + r, k * BLOCK_K + q), True)
                r, q = piece // (tile // 8), piece % (tile // 8) * 8
                p.call(cp_async(16), p.at(b_s, place_b(r, q, stage)), p.at(b, k * BLOCK_K + r, bx * tile + q), True)
            p.call(CP_ASYNC_COMMIT)

        load(0, 0)
        with p.serial(0, count) as k:
            if sync:
                p.sync()
            with p.branch(k + 1 < count):
                load(k + 1, (k + 1) % STAGES)
            with p.branch(k + 1 >= count):
                p.call(CP_ASYNC_COMMIT)
            p.call(CP_ASYNC_WAIT, 1 if wait else 2)
            p.sync()
            with p.serial(0, BLOCK_K // 16) as kk:
                with p.serial(0, rows) as i:
                    where = place_a(row0 + i * 16 + lane % 16, kk * 16 + lane // 16 * 8, k % STAGES)
                    p.call(ldmatrix(4), p.at(a_r, i * 8), p.at(a_s, where))
                with p.serial(0, columns // 2) as j:
                    where = place_b(kk * 16 + lane % 16, col0 + j * 16 + lane // 16 * 8, k % STAGES)
                    p.call(ldmatrix(4, True), p.at(b_r, j * 8), p.at(b_s, where))
                with p.serial(0, rows) as i:
                    with p.serial(0, columns) as j:
                        p.call(atom, p.at(sums, (i * columns + j) * 4), p.at(a_r, i * 8), p.at(b_r, j * 4))
        with p.serial(0, rows) as i:
            with p.serial(0, columns) as j:
                with p.serial(0, 2) as h:
                    row = by * tile + row0 + i * 16 + h * 8 + lane // 4
                    col = bx * tile + col0 + j * 8 + lane % 4 * 2
                    pair = Load(sums, ((i * columns + j) * 4 + h * 2,), as_dtype("float32x2"))
                    p.emit(Store(c, (row, col), pair))
    return p


def operands(size):
    chooser = np.random.default_rng(0)
    return (chooser.integers(-4, 5, (size, size)).astype(np.float16) for _ in range(2))


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_pipelined_product_on_tensor_cores(threads, lazy, seed):
    a, b = operands(128)
    c = zeros(128, 128)
    product(threads, 128).simulate(a, b, c, lazy=lazy, seed=seed)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("fault", "kind"), [({"wait": False}, ReadBeforeWrite), ({"sync": False}, SimulationError)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_faults_of_the_product_are_found(threads, fault, kind, seed):
    a, b = operands(128)
    with pytest.raises(kind):
        product(threads, 128, **fault).simulate(a, b, zeros(128, 128), seed=seed)


@pytest.mark.parametrize("swizzle", [True, False])
def test_bank_conflicts_of_the_product_are_counted(threads, swizzle):
    report = Counters()
    a, b = operands(64)
    product(threads, 64, swizzle=swizzle).simulate(a, b, zeros(64, 64), report=report)
    assert swizzle is (report.bank_conflicts == 0)
    assert 0 == report.traffic["global load"].extra
    assert 2 * 2 * 4 * 4 * 2 == report.instructions["tl_mma_m16n8k16_f32_f16_f16"]
    assert report.table()


# -- against the reference ----------------------------------------------------------------------------------------
OPERATORS = [BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.MIN, BinaryOp.MAX]


def elementwise(draw, loads, index, dtype, depth):
    """A value made of loads, the index and literals."""
    kind = draw(st.integers(0, 5 if depth else 2))
    if kind == 0:
        return cast(index, dtype)
    if kind == 1:
        return cast(as_expr(3), dtype)
    if kind == 2:
        return draw(st.integers(0, len(loads) - 1))
    sides = [elementwise(draw, loads, index, dtype, depth - 1) for _ in range(2)]
    sides = [loads[side] if isinstance(side, int) else side for side in sides]
    if kind == 3:
        return select(binary(BinaryOp.LT, *sides), *sides)
    return cast(binary(draw(st.sampled_from(OPERATORS)), *sides), dtype)


@settings(max_examples=50, deadline=None)
@given(
    data=st.data(),
    dtype=st.sampled_from(["int8", "int32", "uint8", "int64", "float16", "bfloat16", "float32", "float64"]),
    size=st.sampled_from([1, 7, 64, 100]),
    count=st.sampled_from([32, 64, 96]),
)
def test_elementwise_kernels_agree_with_the_reference(programs, data, dtype, size, count):
    kind = as_dtype(dtype)
    made, arrays = [], []
    chooser = np.random.default_rng(size)
    inputs = [np.asarray(chooser.integers(-9, 10, size)).astype(kind.numpy) for _ in range(2)]
    tape = []

    def draw(strategy):
        if made:
            return tape.pop(0)
        value = data.draw(strategy)
        tape.append(value)
        return value

    for make in programs:
        p = make()
        a, b, out = (p.tensor(name, (size,), dtype) for name in ("A", "B", "out"))

        def body(i):
            value = elementwise(draw, [p.load(a, i), p.load(b, i)], i, kind, 3)
            p.store(out, (i,), [p.load(a, i), p.load(b, i)][value] if isinstance(value, int) else value)

        if hasattr(p, "kernel"):
            with p.kernel(1, threads=count):
                with p.serial(0, -(-size // count)) as step:
                    i = p.bind("i", step * count + p.thread, index=True)
                    with p.branch(i < size):
                        body(i)
        else:
            with p.launch(1):
                with p.parallel(size) as (i,):
                    body(i)
        made.append(p)
        arrays.append(np.zeros(size, kind.numpy))
    made[0].run(*inputs, arrays[0])
    made[1].simulate(*inputs, arrays[1])
    np.testing.assert_array_equal(arrays[1].astype(np.float64), arrays[0].astype(np.float64))


@settings(max_examples=25, deadline=None)
@given(
    size=st.sampled_from([32, 64, 128]),
    missing=st.sampled_from(["", "first", "second"]),
    seed=st.integers(0, 5),
)
def test_a_tree_of_additions_needs_all_its_barriers(programs, size, missing, seed):
    """Halves of a shared tile are added until one element is left; a barrier too few is always found."""
    p = programs[1]()
    a, out = p.tensor("A", (size,), "int32"), p.tensor("out", (1,), "int32")
    t = p.thread
    with p.kernel(1, threads=size):
        tile = p.shared("tile", (size,), "int32")
        p.store(tile, (t,), p.load(a, t))
        if missing != "first":
            p.sync()
        half = size // 2
        while half:
            with p.branch(t < half):
                p.store(tile, (t,), p.load(tile, t) + p.load(tile, t + half))
            if missing != "second" or half != size // 2:
                p.sync()
            half //= 2
        with p.branch(t < 1):
            p.store(out, (t,), p.load(tile, 0))
    array, total = np.arange(size, dtype=np.int32), zeros(1, dtype=np.int32)
    if missing:
        with pytest.raises((DataRace, ReadBeforeWrite)):
            p.simulate(array, total, seed=seed)
    else:
        p.simulate(array, total, seed=seed)
        assert array.sum() == total[0]
