import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.expr import int_const
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk


def calls(kernel):
    return [s for s in walk(kernel.body) if isinstance(s, CallStmt)]


def test_matrix_instructions_name_their_registers():
    @T.prim_func
    def kernel(A: T.Tensor((16, 16), "float16")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((16, 16), "float16")
            a = T.alloc_local((8,), "float16")
            b = T.alloc_local((4,), "float16")
            c = T.alloc_local((4,), "float32")
            lane = T.get_lane_idx()
            T.ptx_ldmatrix(False, 4, S[lane % 16, lane // 16 * 8], a)
            T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", a, 0, b, 0, c, 0, False)

    load, product = calls(kernel)
    assert [8, 8] == [int_const(load.writes[0].extent[-1]), int_const(load.reads[0].extent[-1])]
    assert [4, 8, 4] == [int_const(region.extent[-1]) for region in product.reads]
    assert ["c"] == [region.buffer.name for region in product.writes]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda A, S: T.ptx_mma("fp32", "m16n8k16", "row", "col", *["fp32"] * 3, A, 0, A, 0, A, 0),
         "T.ptx_mma: no instruction of shape 'm16n8k16' multiplies float32 by float32 into float32"),
        (lambda A, S: T.ptx_mma("fp32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", A, 0, A, 0, A, 0),
         "T.ptx_mma: 'A' holds float32, not float16"),
        (lambda A, S: T.ptx_mma("fp32", "m16n8k16", "col", "col", "fp16", "fp16", "fp32", A, 0, A, 0, A, 0),
         "T.ptx_mma: there is none of layouts 'col' and 'col'"),
        (lambda A, S: T.ptx_ldmatrix(False, 3, S, S), "T.ptx_ldmatrix: num is 3"),
    ],
)
def test_what_no_instruction_does_is_refused(call, message):
    with pytest.raises(ProgramError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((128,), "float32")):
            with T.Kernel(1, threads=128):
                S = T.alloc_shared((128,), "float32")
                call(A, S)

    assert message == caught.value.message


def test_registers_of_32_bits_may_hold_several_elements_each():
    @T.prim_func
    def main(A: T.Tensor((16, 16), "float16"), B: T.Tensor((8, 16), "float16"), C: T.Tensor((16, 8), "float32")):
        with T.Kernel(1, threads=32):
            lane = T.get_thread_binding()
            a, b, c = T.alloc_local((8,), "uint32"), T.alloc_local((4,), "float16"), T.alloc_local((4,), "float32")
            for i in T.unroll(4):
                row, column = lane // 4 + i % 2 * 8, lane % 4 * 2 + i // 2 * 8
                low = T.cast(T.reinterpret("uint16", A[row, column]), "uint32")
                high = T.cast(T.reinterpret("uint16", A[row, column + 1]), "uint32")
                a[4 + i] = low | (high << 16)
                b[i] = B[lane // 4, lane % 4 * 2 + i % 2 + i // 2 * 8]
                c[i] = 0.0
            T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", a.data, 4, b.data, 0, c.data, 0)
            for i in T.unroll(4):
                C[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2] = c[i]

    a, b = (np.arange(n * 16).reshape(n, 16) % 7 - 3 for n in (16, 8))
    c = np.zeros((16, 8), np.float32)
    kernel = tilelang.compile(main, execution_backend="simulator", target={"kind": "cuda", "arch": "sm_80"})
    kernel(a.astype(np.float16), b.astype(np.float16), c)
    np.testing.assert_array_equal(a @ b.T, c)
    compiled = tilelang.compile(main, target={"kind": "cuda", "arch": "sm_80"})
    assert 0 == compiled.resources.local_bytes
