"""Whatever is given to whatever function of the language: the answer is a kernel, or one error in the user's words."""

import inspect
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from tilelang.errors import CompilerBug, TileLangError
from tilelang.language.dtypes import DTYPES

# Decorators read their function's source, T.GemmWarpPolicy is a plain enumeration, and all dtypes are alike.
_LEFT_OUT = {"prim_func", "macro", "GemmWarpPolicy", *DTYPES} - {"float16", "int8", "float16x2", "bool"}
NAMES = sorted(name for name in T.__all__ if callable(getattr(T, name)) and name not in _LEFT_OUT)

VALUES: dict[str, Any] = {
    "nothing": lambda k: None,
    "text": lambda k: "x",
    "no text": lambda k: "",
    "name of a dtype": lambda k: "float32",
    "bytes": lambda k: b"x",
    "int": lambda k: 3,
    "negative int": lambda k: -1,
    "huge int": lambda k: 2**70,
    "bool": lambda k: True,
    "float": lambda k: 1.5,
    "NaN": lambda k: float("nan"),
    "infinity": lambda k: float("inf"),
    "complex": lambda k: 1j,
    "list": lambda k: [1, 2],
    "list of nonsense": lambda k: ["a", None],
    "empty tuple": lambda k: (),
    "dict": lambda k: {},
    "slice": lambda k: slice(0, 2),
    "object": lambda k: object(),
    "function": lambda k: len,
    "class": lambda k: int,
    "array": lambda k: np.ones(3),
    "dtype": lambda k: T.float16,
    "vector dtype": lambda k: T.float16x2,
    "annotation": lambda k: T.Tensor((2,), "float32"),
    "loop": lambda k: T.Parallel(4),
    "layout": lambda k: T.Layout((8, 8), lambda i, j: i * 8 + j),
    "policy": lambda k: T.GemmWarpPolicy.Square,
    "tensor": lambda k: k["A"],
    "shared tile": lambda k: k["S"],
    "row of ints": lambda k: k["F"],
    "mutable scalar": lambda k: k["v"],
    "element": lambda k: k["A"][1, 2],
    "region": lambda k: k["S"][0:2, :],
    "shape": lambda k: k["A"].shape,
    "block index": lambda k: k["bx"],
    "scalar parameter": lambda k: k["n"],
    "float expression": lambda k: k["bx"] * 1.5,
    "condition": lambda k: k["bx"] < 2,
}
_ARITY = re.compile(r"missing|takes|unexpected keyword|multiple values")


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


@settings(max_examples=400, deadline=None)
@given(calls())
@pytest.mark.filterwarnings("ignore:T.symbolic is deprecated", "ignore:T.Buffer is deprecated")
def test_only_errors_of_ours_in_words_of_the_language_come_out(call: tuple[str, list[str], dict[str, str]]) -> None:
    try:
        tilelang.lower(stage(*call), "cpu")
    except CompilerBug:
        raise
    except TileLangError as error:
        assert error.loc is None or error.loc.file == __file__
        internal = "while the kernel was staged" in error.message and not _ARITY.search(error.message)
        assert not internal, error.message
