import pytest

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk
from tilelang.language.calls import emit_call, inside_kernel
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.gpu.isa.warp import ACTIVE_MASK


def test_a_result_is_named_by_the_user_or_by_the_call_and_no_result_is_none():
    @T.prim_func
    def kernel(A: T.Tensor((32,), "uint32")):
        with T.Kernel(1, threads=32):
            assert emit_call("T.sync_threads", SYNC_THREADS) is None
            mine = emit_call("T.activemask", ACTIVE_MASK)
            A[0] = emit_call("T.activemask", ACTIVE_MASK, name="lanes") + mine

    calls = [s for s in walk(kernel.body) if isinstance(s, CallStmt)]
    assert [None, "mine", "lanes"] == [None if call.result is None else call.result.name for call in calls]


def test_a_call_needs_a_kernel_around_it():
    with pytest.raises(ProgramError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((32,), "uint32")):
            inside_kernel("T.sync_threads")

    assert "T.sync_threads: stands outside of a kernel" == caught.value.message
    assert "write it inside `with T.Kernel(...)`" == caught.value.hint
