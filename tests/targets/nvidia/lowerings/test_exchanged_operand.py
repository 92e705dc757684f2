"""Sums of 8-bit products as an operand of the next one: exchanged between lanes, not through shared memory."""

import numpy as np
import pytest
from device_text import needs_cuda_compiler
from gpu import SCHEDULES, lower_func, simulate_func
from harness import assert_same, run_reference_on_copies

import tilelang.language as T
from tilelang.ir.buffer import Scope
from tilelang.ir.stmt import Alloc, CallStmt
from tilelang.ir.visit import walk
from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.nvidia.isa.quad_exchange import QUAD_EXCHANGE
from tilelang.targets.nvidia.runtime.device_code import build

DTYPES = [("float8_e4m3fn", "float32"), ("float8_e5m2", "float32"), ("int8", "int32")]


def chain(dtype, accum, rows=64, keys=96, columns=40, threads=128, *, loaded=False):
    """(A @ B.T) @ C.T, whose first product stays in registers; if `loaded`, A @ C.T with A in registers."""

    @T.prim_func
    def main(A: T.Tensor((rows, keys if loaded else 32), dtype), B: T.Tensor((keys, 32), dtype),
             C: T.Tensor((columns, keys), dtype), D: T.Tensor((rows, columns), accum)):  # fmt: skip
        with T.Kernel(1, threads=threads):
            first = T.alloc_shared((rows, keys if loaded else 32), dtype)
            second, third = T.alloc_shared((keys, 32), dtype), T.alloc_shared((columns, keys), dtype)
            sums, weights = T.alloc_fragment((rows, keys), accum), T.alloc_fragment((rows, keys), dtype)
            out = T.alloc_fragment((rows, columns), accum)
            T.copy(A, first)
            T.copy(C, third)
            T.clear(out)
            if loaded:
                T.copy(first, weights)
            else:
                T.copy(B, second)
                T.gemm(first, second, sums, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(rows, keys):
                    weights[i, j] = T.cast(T.min(T.max(sums[i, j], -2), 2), dtype)
            T.gemm(weights, third, out, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(out, D)

    return main


def exchanges(made):
    return sum(isinstance(s, CallStmt) and s.routine is QUAD_EXCHANGE for s in walk(made.body))


def arguments(func):
    rng = np.random.default_rng(0)
    return [rng.integers(-3, 4, p.buffer.static_shape).astype(p.buffer.dtype.numpy) for p in func.params]


@pytest.mark.slow(every=5)  # each shape, machine and dtype
@pytest.mark.parametrize(("rows", "threads"), [(64, 128), (128, 256), (128, 128)])
@pytest.mark.parametrize("arch", ["sm_89", "sm_90a"])
@pytest.mark.parametrize(("dtype", "accum"), DTYPES)
def test_a_chain_of_products_stays_in_registers(dtype, accum, arch, rows, threads):
    func = chain(dtype, accum, rows, threads=threads)
    made, given = lower_func(func, arch), arguments(func)
    assert exchanges(made)
    shared = [s.buffer.name for s in walk(made.body) if isinstance(s, Alloc) and s.buffer.scope is Scope.SHARED]
    assert not any(name.startswith("weights") for name in shared)
    expected = run_reference_on_copies(func, given)[3]
    for lazy, seed in SCHEDULES[:2]:
        assert_same(expected, simulate_func(made, given, arch, lazy, seed)[3], 0, 0)


@pytest.mark.parametrize("arch", ["sm_89", "sm_90a"])
def test_a_fragment_that_is_loaded_lies_as_the_instruction_takes_it(arch):
    func = chain("float8_e4m3fn", "float32", loaded=True)
    made, given = lower_func(func, arch), arguments(func)
    assert not exchanges(made)
    assert_same(run_reference_on_copies(func, given)[3], simulate_func(made, given, arch)[3], 0, 0)


@needs_cuda_compiler
def test_exchanged_operands_stay_in_registers_and_their_instructions_overlap():
    made = build(emit(lower_func(chain(*DTYPES[0]), "sm_90a")), "sm_90a", "nvrtc")
    for used in made.resources.values():
        assert (0, 0, False) == (used.spill_bytes, used.local_bytes, used.serialized)
