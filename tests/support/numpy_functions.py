"""NumPy's counterparts of functions of `tilelang.numpy`, and operands on which they are defined."""

import math

import numpy as np
from array_functions import numbers

UNARY = {
    "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh, "erf": np.vectorize(math.erf, otypes="d"),
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "floor": np.floor, "isfinite": np.isfinite, "isinf": np.isinf,
    "isnan": np.isnan, "log": np.log, "log10": np.log10, "log1p": np.log1p, "log2": np.log2,
    "logical_not": np.logical_not, "negative": np.negative, "positive": np.positive, "reciprocal": np.reciprocal,
    "relu": lambda x: np.maximum(x, 0), "round": np.round, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "sign": np.sign, "signbit": np.signbit, "silu": lambda x: x / (1 + np.exp(-x)),
    "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "square": np.square, "tan": np.tan, "tanh": np.tanh,
    "trunc": np.trunc,
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf, otypes="d")(x / math.sqrt(2))),
}  # fmt: skip
BINARY = {
    "add": np.add, "atan2": np.arctan2, "copysign": np.copysign, "divide": np.divide, "equal": np.equal,
    "floor_divide": np.floor_divide, "greater": np.greater, "greater_equal": np.greater_equal, "hypot": np.hypot,
    "less": np.less, "less_equal": np.less_equal, "logaddexp": np.logaddexp, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor, "maximum": np.maximum, "minimum": np.minimum,
    "multiply": np.multiply, "nextafter": np.nextafter, "not_equal": np.not_equal, "pow": np.power,
    "remainder": np.remainder, "subtract": np.subtract,
}  # fmt: skip
BITS = {
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "bitwise_left_shift": np.left_shift, "bitwise_right_shift": np.right_shift,
}  # fmt: skip
POSITIVE = {"acosh": 1.5, "log": 0.1, "log10": 0.1, "log1p": 0.1, "log2": 0.1, "rsqrt": 0.1, "sqrt": 0.1, "pow": 0.1}


def operand_of(name: str, *shape: int, seed: int = 0) -> np.ndarray:
    """Random numbers for which a function has a value."""
    values = numbers(*shape, seed=seed)
    if name in POSITIVE:
        return np.abs(values) + np.float32(POSITIVE[name])
    return np.tanh(values) * np.float32(0.9) if name in ("acos", "asin", "atanh") else values
