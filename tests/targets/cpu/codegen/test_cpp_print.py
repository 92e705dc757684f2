"""`T.print` of a compiled kernel writes exactly what the reference interpreter does."""


import numpy as np

import tilelang
import tilelang.language as T
from tilelang.sim.tile_interp import run_reference


def printed_by_cpu(capfd, func, *arguments):
    kernel = tilelang.compile(func, target="cpu", execution_backend="cc", compile_flags="-O1")
    capfd.readouterr()
    kernel(*arguments)
    return capfd.readouterr().out


def printed_by_reference(func, *arguments):
    lines = []
    run_reference(func, list(arguments), printer=lines.append)
    return "".join(f"{line}\n" for line in lines)


def test_scalars_and_tiles_of_every_kind(capfd):
    @T.prim_func
    def main(A: T.Tensor((2, 3), "float32"), B: T.Tensor((4,), "int8"), C: T.Tensor((2,), "bool")):
        with T.Kernel(1) as bx:
            s = T.alloc_shared((2, 2, 3), "float16")
            u = T.alloc_fragment((3,), "uint64")
            T.fill(s, 1.5)
            T.fill(u, 2**63)
            T.print(A[0, 1])
            T.print(B[2], msg='quoted "text" \\ 100%:')
            T.print(bx + 7, msg="block")
            T.print(A)
            T.print(s, msg="half")
            T.print(u)
            T.print(B[1] > 0, msg="truth=")
            T.print(C)

    arguments = (
        np.array([[1, np.nan, -np.inf], [0.1, 1e-30, -0.0]], np.float32),
        np.array([-1, 5, 127, -128], np.int8),
        np.array([True, False]),
    )
    assert printed_by_reference(main, *arguments) == printed_by_cpu(capfd, main, *arguments)


def test_a_tile_of_a_global_tensor_reads_zero_out_of_range(capfd):
    @T.prim_func
    def main(A: T.Tensor((3,), "int32")):
        with T.Kernel(1):
            T.print(A[1:5], msg="tail")

    a = np.array([4, 5, 6], np.int32)
    assert printed_by_reference(main, a) == printed_by_cpu(capfd, main, a)


def test_tensors_with_the_names_of_helper_variables(capfd):
    @T.prim_func
    def main(at: T.Tensor((3,), "int32"), shape: T.Tensor((3,), "int32"), element: T.Tensor((1, 2), "int32")):
        with T.Kernel(1):
            T.print(at)
            T.print(shape)
            T.print(element)

    arguments = (np.arange(3, dtype=np.int32), np.arange(3, 6, dtype=np.int32), np.array([[7, 8]], np.int32))
    assert printed_by_reference(main, *arguments) == printed_by_cpu(capfd, main, *arguments)


def test_prints_of_blocks_are_not_interleaved(capfd):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "int32")):
        with T.Kernel(64):
            T.print(A)

    a = np.arange(32, dtype=np.int32).reshape(4, 8)
    one = printed_by_reference(main, a).splitlines()[:5]
    assert one * 64 == printed_by_cpu(capfd, main, a).splitlines()
