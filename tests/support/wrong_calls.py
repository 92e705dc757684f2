"""The functions of the language that tests call with wrong arguments, and the arguments by name."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import tilelang.language as T
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

ARITY = re.compile(r"missing a|too many positional|takes (at least )?(\d|one|two)\w* (operand|argument|value)|unexpected keyword|multiple values")
