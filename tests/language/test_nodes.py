"""Classes of elements, calls and functions: what `isinstance` says."""

import pytest

import tilelang.language as T
from tilelang.errors import ProgramError, TileLangError
from tilelang.ir.expr import Var

X = Var("x", T.dtype("int32"), index=True)
F = Var("f", T.dtype("float32"))

def test_nodes_are_recognized():
    assert isinstance(T.exp(F), T.Call)
    assert not isinstance(F + 1, T.Call)
    assert isinstance(X, T.SizeVar)
    assert not isinstance(F, T.SizeVar)
    assert not isinstance(X, (T.Range, T.Reduce, T.IterVar, T.CommReducer))


def test_functions_and_elements_are_recognized():
    found = []

    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            found.append((isinstance(A[0], T.BufferLoad), isinstance(T.BufferLoad(A, [1]), T.BufferLoad)))

    assert [(True, True)] == found
    assert isinstance(main, T.PrimFunc)


def test_an_element_is_one_of_a_buffer():
    with pytest.raises(ProgramError) as caught:
        T.BufferLoad("text", [1])
    assert "T.BufferLoad: needs a whole buffer, not a part of it or a value: ''text''" == caught.value.message


@pytest.mark.parametrize("make", [lambda: T.Range(0, 4), lambda: T.PrimFunc()])
def test_what_cannot_be_made_is_a_type_error(make):
    with pytest.raises(TypeError) as caught:
        make()
    assert isinstance(caught.value, TileLangError)
