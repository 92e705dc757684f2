"""The registers of fragments that are live at once."""

import tilelang.language as T
from tilelang.analysis.register_pressure import peak_registers
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm


def peak(func, temporaries=lambda _: 0) -> int:
    """With a register for each element of the first dimension."""
    launch = next(s for s in walk(func.body) if isinstance(s, Launch))
    return peak_registers(launch.body, lambda tile: tile.static_shape[0], temporaries)


def test_fragments_that_follow_each_other_share_registers() -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 4), "float32"), B: T.Tensor((8, 4), "float32")):
        with T.Kernel(1, threads=32):
            X = T.alloc_fragment((8, 4), "float32")
            Y = T.alloc_fragment((8, 4), "float32")
            T.copy(A, X)
            T.copy(X, B)
            T.copy(A, Y)
            T.copy(Y, B)

    assert 8 == peak(main)


def test_what_the_next_iteration_reads_is_live_all_the_time() -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 4), "float32"), B: T.Tensor((8, 4), "float32")):
        with T.Kernel(1, threads=32):
            X = T.alloc_fragment((8, 4), "float32")
            Y = T.alloc_fragment((8, 4), "float32")
            T.clear(Y)
            for k in T.serial(4):
                T.copy(A, X)
                for i, j in T.Parallel(8, 4):
                    Y[i, j] += X[i, j] * k
            T.copy(Y, B)

    assert 16 == peak(main)


def test_a_branch_may_leave_what_it_would_overwrite() -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 4), "float32"), B: T.Tensor((8, 4), "float32")):
        with T.Kernel(2, threads=32) as bx:
            X = T.alloc_fragment((8, 4), "float32")
            Y = T.alloc_fragment((8, 4), "float32")
            T.copy(A, X)
            T.copy(A, Y)
            if bx == 0:
                T.clear(X)
            T.copy(X, B)
            T.copy(Y, B)

    assert 16 == peak(main)


def products():
    @T.prim_func
    def main(A: T.Tensor((16, 16), "float16"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=32):
            A_s = T.alloc_shared((16, 16), "float16")
            S = T.alloc_fragment((16, 16), "float32")
            P = T.alloc_fragment((16, 16), "float16")
            D = T.alloc_fragment((16, 16), "float32")
            T.copy(A, A_s)
            T.gemm(A_s, A_s, S, clear_accum=True)
            T.copy(S, P)
            T.gemm(P, A_s, D, clear_accum=True)
            T.copy(D, C)

    return main


def test_a_gemm_holds_operands_and_sums_but_a_conversion_only_one_of_both() -> None:
    assert 16 + 16 == peak(products())


def test_statements_may_need_registers_of_their_own() -> None:
    assert 16 + 16 + 5 == peak(products(), lambda stmt: 5 if isinstance(stmt, Gemm) else 0)
