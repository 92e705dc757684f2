"""Operands of the first step of a gemm are loaded an iteration ahead, to the registers that `mma.sync` takes."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lazy_copies import run_lazily

import tilelang.language as T
from tilelang.ir.stmt import Alloc, CallStmt, For, ForKind, If
from tilelang.ir.visit import walk
from tilelang.lowering.lowering import ACCEPTED, LoweringContext, Refusal
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.sim.counters import Counters
from tilelang.sim.run import simulate
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.nvidia.lowerings.operand_load import OperandLoad, operand_loads
from tilelang.targets.target import Target

SM_80 = Target("cuda", "sm_80")
CONTEXT = PassContext(target=SM_80)
SUMS = {"float16": "float32", "bfloat16": "bfloat16", "int8": "int32", "float64": "float64", "tfloat32": "float32"}
NUMPY = {"tfloat32": "float32"}


def product(m, n, k, bm=32, bn=32, bk=32, stages=3, threads=64, dtype="float16", turned=(False, False), step=1):
    """C = A B in tiles, with the operands stored as `turned` has it."""

    def stored(rows, columns, is_turned):
        return (columns, rows) if is_turned else (rows, columns)

    @T.prim_func
    def main(
        A: T.Tensor(stored(m, k, turned[0]), dtype),
        B: T.Tensor(stored(k, n, turned[1]), dtype),
        C: T.Tensor((m, n), SUMS[dtype]),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            a = T.alloc_shared(stored(bm, bk, turned[0]), dtype)
            b = T.alloc_shared(stored(bk, bn, turned[1]), dtype)
            c = T.alloc_fragment((bm, bn), SUMS[dtype])
            T.clear(c)
            with T.pipeline(num_stages=stages):
                for ko in T.serial(0, T.ceildiv(k, bk), 1) if step > 0 else T.serial(T.ceildiv(k, bk) - 1, -1, -1):
                    T.copy(A[stored(by * bm, ko * bk, turned[0])], a)
                    T.copy(B[stored(ko * bk, bx * bn, turned[1])], b)
                    T.gemm(a, b, c, transpose_A=turned[0], transpose_B=turned[1])
            T.copy(c, C[by * bm, bx * bn])

    return main


def compiled(func, last=None):
    """The function after all passes, or after the one named `last`."""
    passes = BACKEND.passes
    count = len(passes) if last is None else [each.name for each in passes].index(last) + 1
    return run_passes(func, passes[:count], CONTEXT)


def operands(m, n, k, dtype="float16", turned=(False, False)):
    """A and B of random integers, as they are stored, and their product."""
    rng = np.random.default_rng(m * n + k)
    left, right = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    stored = [x.T if is_turned else x for x, is_turned in zip((left, right), turned, strict=True)]
    return *(np.ascontiguousarray(x, NUMPY.get(dtype, dtype)) for x in stored), left @ right


def check(func, m, n, k, dtype="float16", turned=(False, False), **options):
    a, b, expected = operands(m, n, k, dtype, turned)
    c = np.zeros((m, n), NUMPY.get(SUMS[dtype], SUMS[dtype]))
    simulate(func, [a, b, c], target=SM_80, **options)
    np.testing.assert_array_equal(expected, c)


def loads_ahead(func):
    return any(isinstance(s, Alloc) and s.buffer.name.endswith("_first") for s in walk(func.body))


def in_order(loop):
    """What the statements of a loop do: "wait", "barrier", "copy", "commit", "load", "multiply"."""
    names = {"cp_async_wait": "wait", "sync_threads": "barrier", "cp_async_commit": "commit"}
    found = []
    for stmt in walk(loop.body):
        if isinstance(stmt, CallStmt) and stmt.routine.name != "thread_index":
            name = stmt.routine.name
            kind = names.get(name) or ("copy" if "cp_async" in name else "load" if "ldmatrix" in name else "multiply")
            found += [kind] if found[-1:] != [kind] else []
    return found


def test_an_iteration_waits_loads_and_copies_before_the_last_instructions_of_the_one_before():
    func = compiled(product(64, 64, 256))
    (loop,) = [s for s in walk(func.body) if isinstance(s, For) and s.kind is ForKind.SERIAL]
    assert ["load", "multiply", "wait", "barrier", "load", "copy", "commit", "multiply"] == in_order(loop)


@settings(max_examples=8, deadline=None)
@given(
    depth=st.integers(1, 7).map(lambda n: n * 16),
    bk=st.sampled_from([16, 32, 48, 64]),
    stages=st.integers(1, 4),
    step=st.sampled_from([1, -1]),
    lazy=st.booleans(),
)
def test_results_are_those_of_the_program(depth, bk, stages, step, lazy):
    check(compiled(product(32, 32, depth, bk=bk, stages=stages, step=step)), 32, 32, depth, lazy=lazy)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 7), st.sampled_from([32, 48, 64]), st.integers(2, 4), st.sampled_from([1, -1]))
def test_copies_are_waited_for_though_they_land_as_late_as_they_may(trips, bk, stages, step):
    func = compiled(product(32, 32, trips * bk, bk=bk, stages=stages, step=step), "expand_pipeline")
    assert loads_ahead(func)
    a, b, expected = operands(32, 32, trips * bk)
    (_, _, c), _ = run_lazily(func, (a, b, np.zeros((32, 32), np.float32)))
    np.testing.assert_array_equal(expected, c)


def gated(trips, stages):
    """C = A B + A D, whose second gemm uses a tile of its own."""

    @T.prim_func
    def main(
        A: T.Tensor((32, trips * 32), "float16"),
        B: T.Tensor((trips * 32, 32), "float16"),
        D: T.Tensor((trips * 32, 32), "float16"),
        C: T.Tensor((32, 32), "float32"),
    ):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), "float16")
            b, d = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            c, e = T.alloc_fragment((32, 32), "float32"), T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            T.clear(e)
            for k in T.Pipelined(trips, num_stages=stages):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.copy(D[k * 32, 0], d)
                T.gemm(a, b, c)
                T.gemm(a, d, e)
            for i, j in T.Parallel(32, 32):
                c[i, j] += e[i, j]
            T.copy(c, C)

    return main


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 6), st.integers(2, 4))
def test_of_two_gemms_the_last_hides_the_loads_of_the_first(trips, stages):
    func = compiled(gated(trips, stages), "expand_pipeline")
    assert loads_ahead(func)
    a, b, first = operands(32, 32, trips * 32)
    d = b[:, ::-1].copy()
    (*_, c), _ = run_lazily(func, (a, b, d, np.zeros((32, 32), np.float32)))
    np.testing.assert_array_equal(first + first[:, ::-1], c)


def test_a_tile_that_is_used_later_is_waited_for_with_the_others():
    (loop,) = [s for s in walk(compiled(gated(8, 3)).body) if isinstance(s, For) and s.kind is ForKind.SERIAL]
    assert ["load", "multiply"] * 2 + ["wait", "barrier", "load", "copy", "commit", "multiply"] == in_order(loop)


@pytest.mark.slow(every=3)  # each dtype and order
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("dtype", ["float16", "int8", "float64", "tfloat32"])
def test_operands_of_any_dtype_are_loaded_as_the_instruction_takes_them(dtype, turned):
    func = compiled(product(32, 48, 192, bn=48, bk=64, dtype=dtype, turned=turned))
    assert loads_ahead(func)
    counters = Counters()
    check(func, 32, 48, 192, dtype, turned, report=counters)
    assert 0 == counters.traffic["shared load"].extra


def test_rows_beyond_the_tile_are_loaded_from_inside():
    func = compiled(product(24, 8, 64, bm=24, bn=8, threads=32))
    assert loads_ahead(func)
    check(func, 24, 8, 64)


def test_sums_that_leave_no_registers_keep_their_loads():
    assert loads_ahead(compiled(product(128, 256, 64, bm=128, bn=256, threads=256)))
    assert not loads_ahead(compiled(product(128, 192, 64, bm=128, bn=192, threads=128)))


@pytest.mark.parametrize(("columns", "suffices"), [(128, True), (160, False)])
def test_blocks_of_many_threads_have_fewer_registers(columns, suffices):
    # 128, of which sums take 64 or 80 and operands 48 or 56
    assert suffices == loads_ahead(compiled(product(256, columns, 64, bm=256, bn=columns, threads=512)))


def test_sums_that_the_gemm_converts_are_not_divided():
    assert operand_loads(one_gemm(dtype="bfloat16")) is None


def branches(func):
    """The conditions of what a pipelined loop does ahead, and whether that loads an operand."""
    (loop,) = [s for s in walk(func.body) if isinstance(s, For) and s.kind is ForKind.SERIAL]
    found = [s for s in walk(loop.body) if isinstance(s, If)]
    return [any(isinstance(each, Copy) and each.choice == OperandLoad.name for each in walk(s)) for s in found]


def test_operands_are_loaded_without_a_branch_where_that_is_within_bounds():
    assert [False] == branches(compiled(product(32, 32, 96), "expand_pipeline"))


def test_operands_at_a_place_of_the_iteration_are_loaded_if_there_is_one():
    @T.prim_func
    def main(A: T.Tensor((32, 96), "float16"), B: T.Tensor((96, 32), "float16"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=64):
            a, b = T.alloc_shared((32, 96), "float16"), T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.clear(c)
            for ko in T.Pipelined(3, num_stages=2):
                T.copy(B[ko * 32, 0], b)
                T.gemm(a[:, ko * 32 : ko * 32 + 32], b, c)
            T.copy(c, C)

    assert [True, False] == branches(compiled(main, "expand_pipeline"))
    check(compiled(main), 32, 32, 96)


def one_gemm(**changes):
    (gemm,) = [s for s in walk(compiled(product(32, 32, 32, **changes), "choose_lowerings").body) if isinstance(s, Gemm)]
    return gemm


def test_what_a_gemm_needs_for_a_step():
    loads = operand_loads(one_gemm())
    # two warps of 16 rows each: 16 x 16 elements of A and 32 x 16 of B, of 16 bits
    assert (16, 4 + 8) == (loads.step, loads.registers)


def test_gemms_that_are_not_divided():
    assert operand_loads(one_gemm(bk=20)) is None  # the last instruction takes a part of its step
    assert operand_loads(one_gemm(bm=1, threads=32)) is None  # lanes hold the only row as often as the instruction asks
    gemm = one_gemm()
    assert operand_loads(dataclasses.replace(gemm, a=whole(gemm.c.buffer))) is None  # it is in registers already
    assert operand_loads(dataclasses.replace(gemm, plan=ACCEPTED)) is None


def test_copies_as_users_write_them_are_refused():
    gemm = one_gemm()
    context = LoweringContext(SM_80, CompileOptions(), 64)
    refusal = OperandLoad().accepts(Copy(gemm.a, whole(gemm.c.buffer)), context)
    assert Refusal("it loads no operand ahead of its loop") == refusal
