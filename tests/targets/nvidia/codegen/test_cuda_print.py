"""`T.print` in CUDA writes exactly what the reference interpreter does."""

import ctypes

import numpy as np
from cuda_host import needs_compiler, run_source, sequential_source
from device_text import compile_cuda, needs_cuda_compiler

import tilelang.language as T
from tilelang.sim.tile_interp import run_reference


@T.prim_func
def printing(A: T.Tensor((2, 3), "float32"), B: T.Tensor((4,), "int8"), C: T.Tensor((2,), "bool")):
    with T.Kernel(1) as bx:
        s = T.alloc_shared((2, 2, 3), "float64")
        u = T.alloc_shared((3,), "uint64")
        T.fill(s, 1.5)
        T.fill(u, 2**63)
        T.print(A[0, 1])
        T.print(B[2], msg='quoted "text" \\ 100%:')
        T.print(bx + 7, msg="block")
        T.print(A)
        T.print(s, msg="wide")
        T.print(u)
        T.print(B[1] > 0, msg="truth=")
        T.print(C)
        T.print(B[2:6], msg="tail")


@needs_compiler
def test_scalars_and_tiles_of_every_kind(capfd):
    arguments = [
        np.array([[1, np.nan, -np.inf], [0.1, 1e-30, -0.0]], np.float32),
        np.array([-1, 5, 127, -128], np.int8),
        np.array([True, False]),
    ]
    lines = []
    run_reference(printing, list(arguments), printer=lines.append)
    capfd.readouterr()
    run_source(printing, sequential_source(printing), arguments)
    ctypes.CDLL(None).fflush(None)
    assert "".join(f"{line}\n" for line in lines) == capfd.readouterr().out


@needs_cuda_compiler
def test_printing_compiles():
    compile_cuda(sequential_source(printing).text, "sm_80")


def test_a_scalar_is_one_call_that_other_threads_do_not_interrupt():
    text = sequential_source(printing).text
    assert 'tl_print((double)(A[1]), "A[0, 1] = ", "\\n");' in text
