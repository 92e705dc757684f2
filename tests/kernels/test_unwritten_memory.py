"""Reads of undefined memory are errors of the reference interpreter and the simulator."""

import numpy as np
import pytest
from harness import way

import tilelang
import tilelang.language as T
from tilelang.errors import ReadBeforeWrite


def product(dtype, sums, scope):
    alloc = T.alloc_fragment if scope == "fragment" else T.alloc_shared

    @T.prim_func
    def main(A: T.Tensor((32, 32), dtype), C: T.Tensor((32, 32), sums)):
        with T.Kernel(1, threads=64):
            A_s = T.alloc_shared((32, 32), dtype)
            C_l = alloc((32, 32), sums)
            T.copy(A, A_s)
            T.gemm(A_s, A_s, C_l, transpose_B=True)
            T.copy(C_l, C)

    return main


def operand():
    @T.prim_func
    def main(A: T.Tensor((32, 32), "float16"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=64):
            A_s, B_s = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            C_l = T.alloc_fragment((32, 32), "float32")
            T.clear(C_l)
            T.copy(A, A_s)
            T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C)

    return main


def moved(scope, rows):
    alloc = T.alloc_fragment if scope == "fragment" else T.alloc_shared

    @T.prim_func
    def main(A: T.Tensor((32, 32), "float32"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=64):
            tile, other = alloc((32, 32), "float32"), T.alloc_fragment((32, 32), "float32")
            T.copy(A[0:rows, :], tile[0:rows, :])
            T.copy(tile, other)
            T.copy(other, C)

    return main


def element():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_local((4,), "float32")
            for i in T.Parallel(64):
                C[i] = x[i % 4]

    return main


CASES = {
    "float16 sums": lambda: product("float16", "float32", "fragment"),
    "shared sums": lambda: product("float16", "float32", "shared"),
    "int8 sums": lambda: product("int8", "int32", "fragment"),
    "operand": operand,
    "shared tile": lambda: moved("shared", 16),
    "fragment": lambda: moved("fragment", 16),
    "local": element,
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backend", ["reference", "simulator"])
def test_what_was_never_written_is_not_read(case, backend):
    func = CASES[case]()
    arguments = [np.zeros([int(e) for e in p.shape], p.dtype.numpy) for p in func.params]
    with pytest.raises(ReadBeforeWrite):
        tilelang.compile(func, **way(backend))(*arguments)


@pytest.mark.parametrize("backend", ["reference", "simulator"])
@pytest.mark.parametrize("scope", ["shared", "fragment"])
def test_what_was_written_is(scope, backend):
    c = np.zeros((32, 32), np.float32)
    tilelang.compile(moved(scope, 32), **way(backend))(np.ones((32, 32), np.float32), c)
    assert (c == 1).all()


def test_the_message_names_what_would_have_been_stored():
    arguments = [np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32)]
    with pytest.raises(ReadBeforeWrite) as error:
        tilelang.compile(moved("shared", 16), **way("reference"))(*arguments)
    first = str(error.value).splitlines()
    assert "C[16, 0]: what is stored there was read before anything was written to it" == first[0]
    assert "hint: write all of the tile first, for example with T.clear(tile), or copy only the part that was written" == first[-1]
