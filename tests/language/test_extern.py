import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.stmt import CallStmt, Launch
from tilelang.ir.visit import walk

TWICE = "__device__ float twice(float x) { return 2 * x; }"


def calls(kernel):
    return [s for s in walk(kernel.body) if isinstance(s, CallStmt)]


def test_the_users_functions_are_called_with_values_and_addresses():
    @T.prim_func
    def kernel(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            T.import_source(TWICE)
            T.import_source(TWICE)
            tx = T.get_thread_binding()
            A[tx] = T.call_extern("float32", "twice", A[tx])
            T.call_extern("handle", "touch", A.access_ptr("r"), tx)

    launch = next(s for s in walk(kernel.body) if isinstance(s, Launch))
    first, second = calls(kernel)
    assert (TWICE,) == launch.hints.sources
    assert "float32" == first.result.dtype
    assert second.result is None
    assert (["A"], []) == ([r.buffer.name for r in second.reads], [r.buffer.name for r in second.writes])


def test_the_dtype_of_a_call_may_be_named_and_a_value_that_nothing_uses_need_not_exist():
    @T.prim_func
    def kernel(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "uint8")):
        with T.Kernel(1, threads=32):
            T.import_source(TWICE + " __device__ void decode(const uint8_t* from, float* to, int n) { *to = *from + n; }")
            tx = T.get_thread_binding()
            b, a = T.alloc_local((1,), "uint8"), T.alloc_local((1,), "float32")
            b[0] = B[tx]
            T.call_extern("decode", T.access_ptr(b, "r"), T.access_ptr(a, "w"), 1, dtype="float32")
            A[tx] = a[0] + T.call_extern("twice", A[tx], dtype="float32")
            T.call_pure_extern("twice", A[tx], dtype="float32")

    decode, twice, again = calls(kernel)
    assert (None, "float32", None) == (decode.result, twice.result.dtype, again.result)
    source = tilelang.compile(kernel, target={"kind": "cuda", "arch": "sm_80"}).get_kernel_source()
    assert "    decode(" in source and "= decode(" not in source
    assert "(float)(twice(A[thread]))" in source


def test_a_prelude_is_source_before_the_kernel():
    @T.prim_func
    def kernel(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32, prelude=TWICE):
            A[0] = T.call_extern("float32", "twice", A[0])

    launch = next(s for s in walk(kernel.body) if isinstance(s, Launch))
    assert (TWICE,) == launch.hints.sources


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda A: T.call_extern("float32", "two words"), "T.call_extern: 'two words' is no name of a C++ function"),
        (lambda A: T.call_extern("float32"), "T.call_extern: needs a dtype and the name of a function"),
        (lambda A: T.import_source(3), "T.import_source: expected a text, got int"),
    ],
)  # fmt: skip
def test_what_cannot_be_called_is_refused(call, message):
    with pytest.raises(ProgramError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((32,), "uint32")):
            with T.Kernel(1, threads=32):
                call(A)

    assert message == caught.value.message
