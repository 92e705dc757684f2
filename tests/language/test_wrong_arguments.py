"""Whatever is given to whatever function of the language: the answer is a kernel, or one error in the user's words."""

import inspect
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wrong_calls import ARITY, NAMES, VALUES

import tilelang
import tilelang.language as T
from tilelang.errors import CompilerBug, TileLangError


def stage(name: str, args: list[str], kwargs: dict[str, str]) -> Any:
    """A kernel whose body is one call of `T.<name>`."""

    @T.prim_func
    def main(A: T.Tensor((8, 8), "float32"), n: T.int32):
        with T.Kernel(4) as bx:
            S = T.alloc_shared((8, 8), "float32")
            F = T.alloc_fragment((8,), "int32")
            v = T.alloc_var("int32", init=0)
            known = {"A": A, "S": S, "F": F, "v": v, "bx": bx, "n": n}
            positional = [VALUES[a](known) for a in args]
            getattr(T, name)(*positional, **{key: VALUES[a](known) for key, a in kwargs.items()})

    return main


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, list[str], dict[str, str]]:
    """A function with about as many arguments as it takes."""
    name = draw(st.sampled_from(NAMES))
    try:
        parameters = list(inspect.signature(getattr(T, name)).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    optional = [p.name for p in parameters if p.default is not p.empty]
    value = st.sampled_from(list(VALUES))
    count = len(required) if draw(st.integers(0, 9)) else draw(st.integers(0, 4))
    args = [draw(value) for _ in range(count)]
    return name, args, {key: draw(value) for key in optional if not draw(st.integers(0, 3))}


@settings(max_examples=8 * settings().max_examples)
@given(calls())
@pytest.mark.filterwarnings("ignore:T.symbolic is deprecated", "ignore:T.Buffer is deprecated")
def test_only_errors_of_ours_in_words_of_the_language_come_out(call: tuple[str, list[str], dict[str, str]]) -> None:
    try:
        tilelang.lower(stage(*call), "cpu")
    except CompilerBug:
        raise
    except TileLangError as error:
        assert error.loc is None or error.loc.file == __file__
        internal = "while the kernel was staged" in error.message and not ARITY.search(error.message)
        assert not internal, error.message
