import pytest

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk


def test_inline_ptx_writes_scalars_and_elements_of_local_buffers():
    @T.prim_func
    def kernel(A: T.Tensor((32,), "uint32")):
        with T.Kernel(1, threads=32):
            high = T.alloc_var("uint32")
            low = T.alloc_local((2,), "uint32")
            T.inline_ptx("mul.hi.u32 %0, %2, %3; mul.lo.u32 %1, %2, %3;", [high, low[1]], [A[0], A[1]])
            A[2] = high + low[1]

    (call,) = [s for s in walk(kernel.body) if isinstance(s, CallStmt)]
    assert ["high", "low"] == [region.buffer.name for region in call.writes]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda A: T.inline_ptx("mov.b32 %0, 1;", [A[0]]),
         "T.inline_ptx: an output is A[0], which no register can stand for"),
        (lambda A: T.inline_ptx("mov.b32 %3, 1;"), "T.inline_ptx: the template names %3, but there are 0 operands"),
    ],
)  # fmt: skip
def test_what_cannot_be_called_is_refused(call, message):
    with pytest.raises(ProgramError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((32,), "uint32")):
            with T.Kernel(1, threads=32):
                call(A)

    assert message == caught.value.message
