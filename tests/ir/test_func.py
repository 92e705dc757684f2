"""Functions and their parameters."""

import tilelang.language as T
from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.func import Level, PrimFunc, ScalarParam, TensorParam
from tilelang.ir.stmt import Seq


def test_the_properties_of_a_tensor_parameter() -> None:
    n = Var("n", INT32, index=True)
    param = TensorParam(Buffer("A", (n, as_expr(3)), as_dtype("float16"), Scope.GLOBAL))
    assert ("A", "float16") == (param.name, param.dtype)
    assert n is param.shape[0]


def test_the_properties_of_a_scalar_parameter() -> None:
    param = ScalarParam(Var("count", INT32))
    assert ("count", "int32") == (param.name, param.dtype)


def test_a_function_starts_at_tile_level() -> None:
    func = PrimFunc("main", (), Seq(()))
    assert (Level.TILE, (), ()) == (func.level, func.symbols, func.attributes)
    assert func != PrimFunc("main", (), Seq(()))


def test_functions_and_expressions_show_their_text() -> None:
    n = Var("n", INT32, index=True)
    func = PrimFunc("main", (ScalarParam(n),), Seq(()))
    assert "PrimFunc(main)" == repr(func)
    assert str(func).startswith("@T.prim_func\ndef main(n: T.int32):")
    assert func.script() == str(func)
    assert "n * 2 + 1" == repr(n * 2 + 1)


def test_attributes_by_name() -> None:
    @T.prim_func
    def plain(A: T.Tensor((8,), "float32")) -> None:
        with T.Kernel(1):
            T.clear(A)

    assert {"global_symbol": "plain"} == dict(plain.attrs)
    assert "tilelang_out_idx" not in plain.attrs

    @T.prim_func
    def returning(A: T.Tensor((8,), "float32")) -> T.Tensor:
        T.func_attr({"global_symbol": "main", "of_mine": 3})
        T.annotate_compile_flags(["-O1"])
        B = T.empty((8,), "float32")
        with T.Kernel(1):
            T.copy(A, B)
        return B

    expected = {"global_symbol": "main", "of_mine": 3, "tilelang_compile_flags": ["-O1"], "tilelang_out_idx": [-1]}
    assert expected == dict(returning.attrs)
