import pytest

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.expr import int_const
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk


def calls(kernel):
    return [s for s in walk(kernel.body) if isinstance(s, CallStmt)]


def test_copies_in_the_background_say_what_they_touch():
    @T.prim_func
    def kernel(A: T.Tensor((128, 8), "float16")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            S = T.alloc_shared((128, 8), "float16")
            T.ptx_cp_async(T.address_of(S[tx, 0]), A[tx, 0], 8)
            T.ptx_cp_async(S.access_ptr("w"), T.access_ptr(A[tx, 4], "r"), 4, predicate=tx < 64)
            T.ptx_commit_group()
            T.ptx_wait_group(0)

    first, second, commit, wait = calls(kernel)
    assert ["cp_async_16", "cp_async_8"] == [first.routine.name, second.routine.name]
    assert ("S", 8) == (first.writes[0].buffer.name, int_const(first.writes[0].extent[-1]))
    assert ("A", 4) == (second.reads[0].buffer.name, int_const(second.reads[0].extent[-1]))
    assert 0 == wait.args[0].value


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda A, S: T.ptx_cp_async(A[0], A[1], 16), "T.ptx_cp_async: 'A' is in scope 'global', not shared"),
        (lambda A, S: T.ptx_cp_async(S[0], S[1], 16), "T.ptx_cp_async: 'S' is in scope 'shared.dyn', not global"),
        (lambda A, S: T.ptx_cp_async(S[0], A[1], 3),
         "T.ptx_cp_async: 3 elements of float32 are 12 bytes, but the instruction copies 4, 8 or 16"),
    ],
)  # fmt: skip
def test_addresses_that_do_not_fit_are_refused(call, message):
    with pytest.raises(ProgramError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((128,), "float32")):
            with T.Kernel(1, threads=128):
                S = T.alloc_shared((128,), "float32")
                call(A, S)

    assert message == caught.value.message
