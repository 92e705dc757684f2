from collections.abc import Callable

import pytest

import tilelang.language as T
from tilelang.errors import ProgramError, StagingError
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Const, Load
from tilelang.ir.stmt import Alloc
from tilelang.language.proxy import BufferProxy
from tilelang.language.stage import Stager, staging

Tensor = Callable[..., BufferProxy]


@pytest.mark.parametrize(
    ("alloc", "scope"),
    [(T.alloc_shared, Scope.SHARED), (T.alloc_fragment, Scope.FRAGMENT), (T.alloc_local, Scope.LOCAL)],
)
def test_each_allocation_has_its_scope(alloc: Callable[..., BufferProxy], scope: Scope, stager: Stager) -> None:
    stager.targets = ("tile",)
    tile = alloc((4, 8), "float16")
    (statement,) = stager.statements
    assert isinstance(statement, Alloc)
    assert statement.buffer is tile.buffer
    assert ("tile", scope, (4, 8), "float16") == (tile.name, tile.buffer.scope, tile.shape, tile.dtype)


def test_names_are_unique(stager: Stager) -> None:
    assert ["shared", "shared_1"] == [T.alloc_shared((4,)).name for _ in range(2)]


@pytest.mark.parametrize("shape", [(), (0,), (4, 0), 4, [2, 3]])
def test_any_constant_shape_is_legal(shape: object, stager: Stager) -> None:
    expected = (shape,) if isinstance(shape, int) else tuple(shape)  # type: ignore[arg-type]
    assert expected == T.alloc_fragment(shape).shape  # type: ignore[arg-type]


def test_symbolic_extents_are_told_what_to_write_instead(stager: Stager) -> None:
    with pytest.raises(ProgramError) as caught:
        T.alloc_shared((32, T.dyn["K"]))
    assert "T.alloc_shared: extent K of dimension 1 is only known when the kernel runs" == caught.value.message
    assert "write a tile size such as 128" in caught.value.hint


def test_scopes_may_be_named(stager: Stager) -> None:
    assert "shared" == T.alloc_shared((4,), "float32", scope="shared").scope()
    assert "shared.dyn" == T.alloc_shared((4,), "float32", scope="shared.dyn").scope()
    assert "shared.dyn" == T.alloc_shared((4,), "float32").scope()
    assert "shared" == T.alloc_buffer((4,), "float32", scope="shared").scope()
    with pytest.raises(ProgramError, match="T.alloc_shared: unknown scope 'global'"):
        T.alloc_shared((4,), "float32", scope="global")


def test_a_mutable_scalar_is_read_by_a_load(stager: Stager) -> None:
    x = T.alloc_var("int32", 3)
    (statement,) = stager.statements
    assert isinstance(x, Load)
    assert isinstance(statement, Alloc)
    assert isinstance(statement.init, Const)
    assert (Scope.VAR, (), 3) == (x.buffer.scope, x.indices, statement.init.value)


def test_every_form_of_alloc_var(stager: Stager) -> None:
    T.alloc_var(T.float32)
    T.alloc_var(T.float32, "local.var")  # type: ignore[arg-type]
    T.alloc_var(T.float32, "-inf")
    T.alloc_var("float16", init=1)
    T.alloc_var("int32", 0, "local.var")
    inits = [s.init.value if isinstance(s.init, Const) else None for s in stager.statements if isinstance(s, Alloc)]
    assert [None, None, float("-inf"), 1.0, 0] == inits


def test_a_workspace_stands_outside_of_kernels(stager: Stager) -> None:
    with pytest.raises(StagingError, match="T.alloc_global: a workspace belongs to the function"):
        T.alloc_global((4,))
    with staging(Stager()):
        assert "global" == T.alloc_global((T.dyn["n"], 4), "float16").scope()


def test_reshape_shares_the_bytes(tensor: Tensor, stager: Stager) -> None:
    s = T.alloc_shared((4, 8), "float16")
    flat = T.reshape(s, (32,))
    again = T.reshape(flat, (-1, 2, 8))
    assert flat.buffer.view_of is s.buffer
    assert again.buffer.storage is s.buffer
    assert (2, 2, 8) == again.shape
    assert [s.buffer, flat.buffer, again.buffer] == [x.buffer for x in stager.statements if isinstance(x, Alloc)]


def test_reshape_of_symbolic_tensors(tensor: Tensor, stager: Stager) -> None:
    m = T.dyn["M"]
    assert 3 == T.reshape(tensor("A", (m, 128)), (m, 2, 64)).ndim
    with pytest.raises(ProgramError, match="T.reshape: 'A' is"):
        T.reshape(tensor("A", (m, 128)), (T.dyn["N"], 128))
    with pytest.raises(ProgramError, match="-1 needs constant extents"):
        T.reshape(tensor("A", (m, 128)), (-1, 64))


@pytest.mark.parametrize("shape", [(3, 8), (-1, 5), (31,)])
def test_reshape_keeps_the_number_of_elements(shape: tuple[int, ...], stager: Stager) -> None:
    with pytest.raises(ProgramError, match=r"T.reshape: 'shared' is \(4, 8\) of float32, 128 bytes, but"):
        T.reshape(T.alloc_shared((4, 8)), shape)


def test_view_changes_the_dtype(stager: Stager) -> None:
    s = T.alloc_shared((4, 8), "float16")
    assert ((4, 4), "uint32") == (T.view(s, dtype="uint32").shape, T.view(s, dtype="uint32").dtype)
    assert (4, 16) == T.view(s, dtype="int8").shape
    assert (64,) == T.view(s, (64,), "int8").shape
    with pytest.raises(ProgramError, match="holds 6 bytes, no multiple of the 4 of uint32"):
        T.view(T.alloc_shared((4, 3), "float16"), dtype="uint32")


def test_only_dense_buffers_have_views(stager: Stager) -> None:
    strided = BufferProxy(T.alloc_shared((4, 8)).buffer)
    kind = T.StridedTensor((4, 8), (16, 1))
    object.__setattr__(strided.buffer, "strides", kind.strides)
    with pytest.raises(ProgramError, match="is a strided tensor"):
        T.reshape(strided, (32,))
    with pytest.raises(ProgramError, match="needs a whole buffer"):
        T.view(T.alloc_shared((4, 8))[0], dtype="uint8")  # type: ignore[arg-type]


def test_forms_of_a_mutable_scalar(stager: Stager) -> None:
    forms = [
        T.alloc_var("int32", 3),
        T.alloc_var("int32", init=3),
        T.alloc_var("int32", 3, "local.var"),
        T.alloc_var("int32", "local.var", init=3),
        T.alloc_var("int32", 3, scope="local.var"),
    ]
    assert [3] * len(forms) == [s.init.value for s in stager.statements if isinstance(s, Alloc)]  # type: ignore[union-attr]
    assert 2 == len({T.alloc_var("float32").buffer, T.alloc_var("float32", "local.var").buffer})
    for wrong in (lambda: T.alloc_var("int32", 3, init=4), lambda: T.alloc_var("int32", 3, 4)):
        with pytest.raises(TypeError, match="T.alloc_var: got two first values"):
            wrong()
    with pytest.raises(TypeError, match="T.alloc_var: got two scopes"):
        T.alloc_var("int32", 3, "local.var", scope="local.var")
    with pytest.raises(ValueError, match="T.alloc_var: unknown scope 'shared'"):
        T.alloc_var("int32", "shared")


@pytest.mark.parametrize(
    ("dtype", "value", "side"),
    [
        *[("float32", 1e300, "maximum"), ("float16", -70000, "minimum"), ("float8_e4m3fn", 500.0, "maximum")],
        *[("int8", 300, "maximum"), ("uint8", -1, "minimum"), ("int32", 2**31, "maximum"), ("float4_e2m1fn", 7, "maximum")],
    ],
)
def test_a_first_value_that_the_dtype_does_not_have(dtype: str, value: float, side: str, stager: Stager) -> None:
    with pytest.raises(ValueError, match=f"T.alloc_var: .* exceeds {side} of {dtype}"):
        T.alloc_var(dtype, value)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *[("float32", 3.4028235e38), ("float16", 65519.0), ("float32", float("inf")), ("float16", float("nan"))],
        *[("int8", -128), ("uint64", 2**64 - 1), ("bool", True), ("float32", "-inf")],
    ],
)
def test_a_first_value_that_the_dtype_has_after_rounding(dtype: str, value: object, stager: Stager) -> None:
    assert dtype == T.alloc_var(dtype, value).dtype  # type: ignore[arg-type]


def test_registers_are_of_the_scope_that_is_named(stager: Stager) -> None:
    assert "local" == T.alloc_fragment((1,), "int32", "local").scope()
    assert "local.fragment" == T.alloc_local((4,), "int32", scope="local.fragment").scope()
    with pytest.raises(ValueError, match="T.alloc_local: unknown scope 'shared'"):
        T.alloc_local((4,), scope="shared")


def test_truth_values_lie_in_another_scope_by_name(stager: Stager) -> None:
    assert ["shared", "shared.dyn"] == [T.alloc_shared(4, dtype).scope() for dtype in ("bool", "int8")]
