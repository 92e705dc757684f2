"""Makes arguments of a kernel's shapes and dtypes, to try and to measure it with."""

from __future__ import annotations

import enum
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilelang.dtypes import DType
from tilelang.errors import ArgumentError
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var
from tilelang.ir.func import Param, TensorParam
from tilelang.ir.visit import walk_expr
from tilelang.runtime.arrays import torch_dtype


class TensorSupplyType(enum.Enum):
    """What the elements of made-up tensors are."""

    Auto = "auto"  # normal for floats, small integers otherwise
    Integer = "integer"  # small integers, so that sums stay exact
    Uniform = "uniform"  # between -1 and 1
    Normal = "normal"  # of variance 1
    Randn = "randn"  # the same
    Zero = "zero"
    One = "one"


def supply(
    param: Param,
    kind: TensorSupplyType = TensorSupplyType.Auto,
    sizes: Mapping[str, int] | None = None,
    device: str = "cpu",
) -> Any:
    """An argument for a parameter: a torch tensor if torch is imported, else a NumPy array; 1 for scalars.

    Args:
        param: The parameter.
        kind: What the elements are.
        sizes: Values of symbolic dims by name.
        device: "cpu", or "cuda" for the current GPU; then the tensor is torch's or CuPy's.

    Raises:
        ArgumentError: A symbolic dim has no value, or no framework at hand has arrays on a GPU.
    """
    if not isinstance(param, TensorParam):
        return 1.0 if param.dtype.is_float else 1
    shape = _shape(param, sizes or {})
    values = _values(kind, shape, param.dtype)
    torch = _framework("torch", device)
    row = torch_dtype(param.dtype)
    if torch is not None and row is not None:
        return torch.from_numpy(values).to(row).to(device)
    narrow = values.astype(param.dtype.numpy)
    if device == "cpu":
        return narrow
    cupy = _framework("cupy", device)
    if cupy is None:
        raise ArgumentError(
            f"profiler: '{param.name}' of dtype {param.dtype!s} must be on a GPU, where neither torch nor CuPy can put "
            "it",
            hint="pip install torch, or pass input_tensors=[...]",
        )
    return cupy.asarray(narrow)


def _framework(name: str, device: str) -> Any:
    """A framework that is in use; on a GPU, where NumPy has no arrays, one that is installed will do."""
    if device == "cpu" or name in sys.modules:
        return sys.modules.get(name)
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _shape(param: TensorParam, sizes: Mapping[str, int]) -> tuple[int, ...]:
    env: dict[Var, int] = {}
    for extent in param.shape:
        for node in walk_expr(extent):
            if isinstance(node, Var):
                if node.name not in sizes:
                    raise ArgumentError(
                        f"profiler: '{param.name}' has the symbolic dimension '{node.name}', which has no value",
                        hint="pass input_tensors=[...]",
                    )
                env[node] = sizes[node.name]
    lanes = (param.dtype.lanes,) if param.dtype.lanes > 1 else ()
    return (*(int(evaluate(extent, env)) for extent in param.shape), *lanes)


def _values(kind: TensorSupplyType, shape: Sequence[int], dtype: DType) -> np.ndarray:
    """Elements in a dtype wide enough to be converted from."""
    rng = np.random.default_rng(np.random.randint(2**31))  # follows numpy.random.seed
    if kind is TensorSupplyType.Zero:
        return np.zeros(shape, np.float32)
    if kind is TensorSupplyType.One:
        return np.ones(shape, np.float32)
    if not dtype.is_float or kind is TensorSupplyType.Integer:
        low, high = (0, 2) if dtype.is_bool else (0, 4) if dtype.limits[0] == 0 else (-2, 3)
        return rng.integers(low, high, shape).astype(np.float32 if dtype.is_float else np.int64)
    if kind is TensorSupplyType.Uniform:
        return rng.uniform(-1, 1, shape).astype(np.float32)
    return rng.standard_normal(shape, dtype=np.float32)
