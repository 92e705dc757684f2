"""Calls of older programs: each does what the newer name does."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import DeviceAssertError, NoLowering, ProgramError
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk
from tilelang.language.legacy_calls import IndexMap, Op


@T.prim_func
def calls(a: T.handle, n: T.int32, p: T.int64):
    A = T.match_buffer(a, (8,), "float32")
    T.func_ret(None)
    T.target("cuda")
    with T.Kernel(1, threads=32):
        B = T.buffer_decl((8,), "float32", data=A.data)
        C = T.buffer((4,), scope="shared")
        with T.Assert(n > 0, ["n is", " too small"]):
            T.buffer_store(B, 2.0, [1])
        T.buffer_store(A, 3.0, [2], predicate=n > 1)
        C[0] = T.BufferLoad(A, [1]) + 1.0
        A[3] = T.call_intrin("float32", "tir.exp2", C[0])
        A[4] = T.if_then_else(T.isnullptr(p), 1.0, 2.0)
        A[5] = T.cast(T.handle_add_byte_offset(p, 4), "float32")
        v = T.var("int32", "v")
        T.let(v, n + 5)
        A[v] = T.index_map(lambda i: i * 2)(v)
        T.evaluate(T.arg("A", n))


@pytest.mark.parametrize("backend", [{"execution_backend": "reference"}, {"target": "cpu"}], ids=["reference", "cpu"])
def test_calls_do_what_newer_names_do(backend):
    kernel = tilelang.compile(calls, **backend)
    a = np.zeros(8, np.float32)
    kernel(a, 1, 0)
    assert [0, 2, 0, 8, 1, 4, 12, 0] == a.tolist()
    a[:] = 0
    kernel(a, 2, 8)
    assert [0, 2, 3, 8, 2, 12, 0, 14] == a.tolist()
    with pytest.raises(DeviceAssertError, match="n is too small"):
        kernel(a, 0, 0)


def test_addresses_and_barriers_of_older_programs():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float16"), n: T.int32):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((64,), "float16")
            tx = T.get_thread_binding()
            kind = T.type_annotation("float16")
            if tx < 4:
                T.ptx_cp_async(
                    T.tvm_access_ptr(kind, S.data, tx * 8, 8, 2), T.tvm_access_ptr(kind, A.data, tx * 8, 8, 1), 8
                )
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.tvm_storage_sync("shared")
            A[tx // 8, tx % 8] = S[31 - tx]

    a = np.arange(32, dtype=np.float16).reshape(4, 8)
    expected = a.reshape(-1)[::-1].reshape(4, 8).copy()
    kernel = tilelang.compile(main, execution_backend="simulator", target={"kind": "cuda", "arch": "sm_80"})
    kernel(a, 1)
    np.testing.assert_array_equal(expected, a)
    names = [node.routine.name for node in walk(main.body) if isinstance(node, CallStmt)]
    assert any("sync" in name or "barrier" in name or "bar" in name for name in names)


def test_a_value_is_bound_before_calls_that_a_body_makes_of_it():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=8):
            for i in T.Parallel(8):
                v, w = T.Var("v", "float32"), T.Var("w", "float32")
                A[i] = T.let(v, A[i] + 1.0, v * T.let(w, v + 1.0, T.shfl_xor(w, 1)))

    a = np.arange(8, dtype=np.float32)
    tilelang.compile(main, execution_backend="simulator", target={"kind": "cuda", "arch": "sm_80"})(a)
    assert [(i + 1) * ((i ^ 1) + 2) for i in range(8)] == a.tolist()


def test_the_storage_of_a_buffer_is_its_address_for_a_function_of_cuda():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=1):
            T.evaluate(T.call_extern("handle", "touch", A.data, 3))

    source = tilelang.lower(main, target={"kind": "cuda", "arch": "sm_80"}).kernel_source
    assert "touch(A, 3);" in source


def test_functions_by_name_are_those_of_the_language_or_of_cuda():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=1):
            A[0] = T.call_intrin("float32", "__fadd_rn", A[1], A[2])
            A[3] = T.call_pure_extern("float32", "__expf", A[0])
            A[2] = T.call_intrin("float32", Op.get("tl.max_nan"), A[0], A[1])

    source = tilelang.compile(main, target={"kind": "cuda", "arch": "sm_80"}).get_kernel_source()
    assert "__fadd_rn(" in source
    assert "__expf(" in source
    assert "A[2] = tl_max(A[0], A[1])" in source


@pytest.mark.parametrize(
    ("statement", "kind", "message"),
    [
        (lambda A: T.call_intrin("float32", "tir.unknown", A[0]), NoLowering, "'tir.unknown' is no function of"),
        (lambda A: T.call_llvm_intrin("float32", "llvm.x"), NoLowering, "T.call_llvm_intrin: no target"),
        (lambda A: T.q_multiply_shift(1, 2, 3, 4), NoLowering, "T.q_multiply_shift: no target"),
        (lambda A: T.tvm_access_ptr("float32", 3, 0, 1, 1), TypeError, "T.tvm_access_ptr: 3 is no buffer"),
        (lambda A: T.tvm_storage_sync("local"), ProgramError, "'local' is no scope that threads share"),
        (lambda A: T.buffer_store(3, 1, [0]), TypeError, "T.buffer_store: 3 is no buffer"),
    ],
)
def test_mistakes(statement, kind, message):
    with pytest.raises(kind, match=message):

        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                statement(A)


def test_an_index_map_is_its_function():
    by_row = IndexMap.from_func(lambda i, j: i * 8 + j, index_dtype="int32")
    assert [19] == by_row.map_indices([2, 3])
    turned = IndexMap.from_func(lambda i, j: (j, i))
    assert [3, 2] == turned.map_indices([2, 3])
