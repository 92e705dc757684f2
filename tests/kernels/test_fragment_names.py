"""Views of fragments: gemms, copies, loops and reductions through them, as for dense tiles."""

import numpy as np
import pytest
from device_text import compile_cuda, needs_cuda_compiler
from distributed_tiles import assert_same, ints
from gpu import assert_simulates, lower_func
from harness import run_cpu_on_copies
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from tilelang.ir.buffer import Scope
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Alloc
from tilelang.ir.visit import walk


@st.composite
def shapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes, of which rows end where those of the other do."""
    factors = draw(st.lists(st.sampled_from([2, 2, 4, 3]), min_size=2, max_size=5))
    found: list[tuple[int, ...]] = []
    for _ in range(2):
        shape = [1]
        for factor in factors:
            if shape[-1] > 1 and draw(st.booleans()):
                shape.append(1)
            shape[-1] *= factor
        found.append(tuple(shape[:4]) if len(shape) <= 4 else (*shape[:3], int(np.prod(shape[3:]))))
    return found[0], found[1]


def tile_program(old: tuple[int, ...], new: tuple[int, ...], dim: int, threads: int) -> PrimFunc:
    """Copies, a loop and a reduction by two names in turn."""
    kept = tuple(extent for axis, extent in enumerate(new) if axis != dim) or (1,)

    @T.prim_func
    def main(A: T.Tensor(old, "int32"), W: T.Tensor(new, "int32"), B: T.Tensor(new, "int32"), C: T.Tensor(kept, "int32")):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment(old, "int32")
            y = T.reshape(x, new)
            total = T.alloc_fragment(kept, "int32")
            T.copy(A, x)
            for at in T.Parallel(*new):
                y[at] = y[at] * W[at]
            for at in T.Parallel(*old):
                x[at] = x[at] + 1
            T.reduce_sum(y, total, dim=dim)
            T.copy(x, A)
            T.copy(y, B)
            T.copy(total, C)

    return main


@settings(max_examples=10)
@given(shapes(), st.integers(0, 3), st.sampled_from([32, 64, 128]))
def test_tiles_are_spread_under_all_names(both, dim, threads):
    old, new = both
    func = tile_program(old, new, dim % len(new), threads)
    kept = tuple(extent for axis, extent in enumerate(new) if axis != dim % len(new)) or (1,)
    arguments = (ints(*old, dtype=np.int32), *(ints(*s, dtype=np.int32, seed=1) for s in (new, new, kept)))
    assert_same(func, *arguments)


def shared_tiles(func: PrimFunc) -> list[str]:
    """The names of the tiles in shared memory, those of reductions left out."""
    names = (s.buffer.name for s in walk(func.body) if isinstance(s, Alloc) and s.buffer.scope is Scope.SHARED)
    return [name for name in names if not name.endswith("_parts")]


PRODUCTS = [
    ((32, 32), (32, 4, 8), "sm_80"),  # columns divided
    ((32, 32), (4, 8, 32), "sm_75"),  # rows divided
    ((32, 32), (1024,), "sm_80"),  # rows joined
    ((64, 16), (16, 64), "sm_90a"),  # both
]


def product(acc: tuple[int, int], shape: tuple[int, ...]) -> PrimFunc:
    (m, n), k = acc, 32
    kept = shape[:-1] or (1,)

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((n, k), "float16"),
        W: T.Tensor(shape[-1:], "float32"),
        C: T.Tensor((m, n), "float32"),
        D: T.Tensor(shape, "float32"),
        E: T.Tensor(kept, "float32"),
    ):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((m, k), "float16")
            B_s = T.alloc_shared((n, k), "float16")
            w = T.alloc_fragment(shape[-1:], "float32")
            s = T.alloc_fragment((m, n), "float32")
            v = T.reshape(s, shape)
            e = T.alloc_fragment(kept, "float32")
            T.copy(A, A_s)
            T.copy(B, B_s)
            T.copy(W, w)
            T.clear(v)
            T.gemm(A_s, B_s, s, transpose_B=True)
            for at in T.Parallel(*shape):
                last = at[-1] if isinstance(at, tuple) else at
                v[at] = T.max(v[at], 0.0) * w[last] + last
            T.reduce_sum(v, e, dim=-1)
            T.copy(v, D)
            for i, j in T.Parallel(m, n):
                s[i, j] = s[i, j] + i - j
            T.copy(s, C)
            T.copy(e, E)

    return main


@pytest.mark.parametrize(("acc", "shape", "arch"), PRODUCTS)
def test_sums_of_a_product_are_used_under_another_name(acc, shape, arch):
    func = product(acc, shape)
    (m, n), k = acc, 32
    tensors = [(m, k), (n, k), shape[-1:], (m, n), shape, shape[:-1] or (1,)]
    arguments = [ints(*s, seed=n) for n, s in enumerate(tensors)]
    arguments[:2] = [a.astype(np.float16) for a in arguments[:2]]
    assert_simulates(func, *arguments, arch=arch, seeds=(0,), rtol=0, atol=0)
    assert ["A_s", "B_s"] == shared_tiles(lower_func(func, arch))


@T.prim_func
def operand(
    A: T.Tensor((4, 16, 32), "float16"), B: T.Tensor((32, 16), "float16"), C: T.Tensor((64, 16), "int32")
):
    with T.Kernel(1, threads=128):
        B_s = T.alloc_shared((32, 16), "float16")
        a = T.alloc_fragment((4, 16, 32), "float16")
        flat = T.reshape(a, (64, 32))
        sums = T.alloc_fragment((4, 16, 16), "float32")
        c = T.reshape(sums, (64, 16))
        bits = T.view(c, dtype="int32")
        T.copy(A, a)
        T.copy(B, B_s)
        for i, j, k in T.Parallel(4, 16, 32):
            a[i, j, k] = a[i, j, k] + i
        T.gemm(flat, B_s, c, clear_accum=True)
        for i, j in T.Parallel(64, 16):
            bits[i, j] = bits[i, j] ^ i
        T.copy(bits, C)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_products_read_and_write_registers_by_other_names(arch):
    a, b = ints(4, 16, 32, dtype=np.float16), ints(32, 16, dtype=np.float16, seed=1)
    zeros = np.zeros((64, 16), np.int32)
    expected = (a + np.arange(4, dtype=np.float16)[:, None, None]).reshape(64, 32).astype(np.float32) @ b
    expected = expected.view(np.int32) ^ np.arange(64, dtype=np.int32)[:, None]
    np.testing.assert_array_equal(expected, run_cpu_on_copies(operand, [a, b, zeros])[2])
    np.testing.assert_array_equal(expected, assert_simulates(operand, a, b, zeros, arch=arch, seeds=(0,))[2])
    assert ["B_s"] == shared_tiles(lower_func(operand, arch))


@needs_cuda_compiler
def test_other_names_of_registers_compile():
    kernel = tilelang.compile(operand, target={"kind": "cuda", "arch": "sm_90a"})
    compile_cuda(kernel.get_kernel_source(), "sm_90a")
