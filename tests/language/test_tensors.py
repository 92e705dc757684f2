from typing import Any

import pytest

import tilelang.language as T
from tilelang.errors import ProgramError, ProgramSizeError, ProgramTypeError, ProgramValueError
from tilelang.ir.buffer import Scope
from tilelang.ir.func import PrimFunc, ScalarParam, TensorParam
from tilelang.ir.printer import to_text
from tilelang.language.stage import Stager


def staged(body: Any) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((8, 4), "float32"), table: T.Tensor([4], T.ptr), p: T.ptr, n: T.int32):
        with T.Kernel(4) as b:
            body(A, table, p, n, b)

    return main


def refused(body: Any, kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        staged(body)
    return str(caught.value.message)  # type: ignore[attr-defined]


def test_pointers_and_tables_are_addresses_of_64_bits() -> None:
    _, table, p, _ = staged(lambda A, table, p, n, b: None).params
    assert isinstance(table, TensorParam)
    assert isinstance(p, ScalarParam)
    assert ("int64", "int64", True) == (table.dtype, p.dtype, p.pointer)


@pytest.mark.parametrize("annotation", [T.ptr, T.Ptr, T.ptr(), T.ptr("float16"), T.Ptr(T.float32, "global")])
def test_a_pointer_is_annotated_bare_or_called(annotation: object) -> None:
    @T.prim_func
    def main(p: annotation):
        A = T.make_tensor(p, (4,), "int32")
        with T.Kernel(1):
            A[0] = 1

    (param,) = main.params
    assert isinstance(param, ScalarParam)
    assert param.pointer


def test_pointers_to_other_memory_are_refused() -> None:
    with pytest.raises(ProgramValueError, match="a parameter points to global memory, not to 'shared'"):
        T.ptr("float32", storage_scope="shared")


def test_a_tensor_is_made_of_a_pointer_or_an_element_of_a_table() -> None:
    @T.prim_func
    def main(table: T.Tensor([4], T.ptr), p: T.ptr, n: T.int32):
        with T.Kernel(4) as b:
            X = T.make_tensor(p, (n, 4), T.float16)
            Y = T.Tensor.from_ptr(table[b], [n])
            Z = T.make_tensor_from_addr(p + 64, 4, "int8", strides=(n,))
            Y[0] = X[0, 0] + Z[0]

    text = to_text(main)
    for line in (
        'X = T.make_tensor(p, (n, 4), "float16")',
        "Y_address = table[b]",
        'Y = T.make_tensor(Y_address, (n,), "float32")',
        'Z = T.make_tensor(p + 64, (4,), "int8", (n,))',
    ):
        assert line in text


def test_what_is_read_from_memory_is_read_once() -> None:
    @T.prim_func
    def main(sizes: T.Tensor([4], "int32"), p: T.ptr):
        with T.Kernel(4) as b:
            X = T.make_tensor(p, (sizes[b], 4), T.float16)
            sizes[b] = 1
            X[0, 0] = X.shape[0]

    text = to_text(main)
    assert "X_extent = sizes[b]" in text
    assert "X = T.make_tensor(p, (X_extent, 4)" in text
    assert "X[0, 0] = T.float16(X_extent)" in text


def test_the_storage_of_a_tensor_has_other_names() -> None:
    def body(A: Any, table: Any, p: Any, n: Any, b: Any) -> None:
        for number, other in enumerate((
            T.Tensor((2, 16), "float32", A.data),
            T.Tensor((4,), "float32", data=A.data),
            T.decl_buffer((128,), "int8", data=A.data),
            T.make_tensor(A.data, (16, 2), "float32"),
        )):
            assert (Scope.GLOBAL, A.buffer) == (other.buffer.scope, other.buffer.view_of)
            other[(number // 2,) * other.ndim] = 1

    staged(body)


def test_a_new_buffer_is_declared_by_its_scope(stager: Stager) -> None:
    shared, local = T.decl_buffer((4,), "int8", scope="shared"), T.decl_buffer(4, scope="local")
    assert (Scope.SHARED, Scope.LOCAL) == (shared.buffer.scope, local.buffer.scope)
    assert ("int8", (4,), "float32") == (shared.dtype, local.shape, local.dtype)


def test_what_does_not_fit_is_refused() -> None:
    assert "T.make_tensor: 'A' is a tensor, not an address" == refused(
        lambda A, table, p, n, b: T.make_tensor(A, (4,)), ProgramTypeError
    )
    assert "T.make_tensor: the address is a int32, not an integer of 64 bits" == refused(
        lambda A, table, p, n, b: T.make_tensor(n, (4,)), TypeError
    )
    assert "T.make_tensor: 'p' is not an address" == refused(
        lambda A, table, p, n, b: T.make_tensor("p", (4,)), TypeError
    )
    assert "T.make_tensor: 2 extents (4, n) but 1 strides" == refused(
        lambda A, table, p, n, b: T.make_tensor(p, (4, n), strides=(1,)), ValueError
    )
    assert "T.make_tensor_from_addr: addresses are of global memory, not of 'shared'" == refused(
        lambda A, table, p, n, b: T.make_tensor_from_addr(p, 4, storage_scope="shared"), ValueError
    )
    assert "T.Tensor(data=): 'A' is (8, 4) of float32, 128 bytes, but (33,) of float32 takes 132" == refused(
        lambda A, table, p, n, b: T.Tensor((33,), "float32", A.data), ProgramSizeError
    )
    assert "T.Tensor: data is <A: float32 (8, 4) in global>, not the storage of a buffer" == refused(
        lambda A, table, p, n, b: T.Tensor((32,), "float32", A), TypeError
    )
    assert "T.decl_buffer: there is no scope 'register'" == refused(
        lambda A, table, p, n, b: T.decl_buffer((4,), scope="register"), ValueError
    )
    assert "T.decl_buffer: elem_offset is not 0" == refused(
        lambda A, table, p, n, b: T.decl_buffer((4,), data=A.data, elem_offset=n), ValueError
    )


def test_a_strided_tensor_has_one_name() -> None:
    with pytest.raises(ProgramError, match="must be dense and row-major"):

        @T.prim_func
        def main(A: T.StridedTensor((8, 4), (8, 1), "float32")):
            with T.Kernel(1):
                T.Tensor((32,), "float32", A.data)[0] = 1


def test_a_buffer_is_allocated_in_the_scope_that_is_named(stager: Stager) -> None:
    scopes = ("shared", "shared.dyn", "local.fragment", "local")
    expected = [Scope.SHARED, Scope.SHARED, Scope.FRAGMENT, Scope.LOCAL]
    assert expected == [T.alloc_buffer((4, 2), "int8", scope).buffer.scope for scope in scopes]
    assert expected == [T.sblock_alloc_buffer([4], scope=scope, align=64).buffer.scope for scope in scopes]
    stager.hints = None  # outside of a kernel
    assert ("float32", (4,), "global") == ((made := T.allocate(4)).dtype, made.shape, made.scope())
    with pytest.raises(ProgramValueError, match="T.alloc_buffer: there is no scope 'register'"):
        T.alloc_buffer((4,), scope="register")
