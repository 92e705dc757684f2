"""Generates arguments for kernels, for checks and measurements.

Takes descriptions of parameters; gives torch tensors if torch is imported, otherwise NumPy or CuPy arrays. Invariant:
the distribution depends on dtype and supply type only; the seed is torch's if torch is imported.
"""

from __future__ import annotations

import enum
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilelang.api import public
from tilelang.dtypes import DType, Kind, lane_dtype
from tilelang.errors import ArgumentError
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Var
from tilelang.ir.func import Param
from tilelang.ir.visit import walk_expr
from tilelang.records import record
from tilelang.runtime.arrays import torch_dtype
from tilelang.runtime.kernel_param import KernelParam


class TensorSupplyType(enum.Enum):
    """The kinds of elements of made-up tensors."""

    Integer = 1  # small integers, so that sums stay exact
    Uniform = 2  # uniform in (-1, 1)
    Normal = 3  # normal with mean -1 and deviation 1
    Randn = 4  # normal with mean 0 and deviation 1
    Zero = 5
    One = 6
    Auto = 7  # uniform in (-1, 1) for float16, bfloat16 and float32, small integers otherwise


class _Distribution(enum.Enum):
    """A distribution, and the meaning of the two bounds of a `_Draw`."""

    INTEGERS = "from the first up to before the second"
    UNIFORM = "between the two"
    NORMAL = "of the first as mean, the second as deviation"
    CONSTANT = "the first"


@record
class _Draw:
    """The distribution of the elements of a tensor.

    Attributes:
        distribution: How they are drawn.
        bounds: What the distribution takes.
        wide: Whether they are drawn in float32 and then converted.
        codes: Whether the integers are bit patterns of the elements, or of the bytes that hold them.
    """

    distribution: _Distribution
    bounds: tuple[float, float]
    wide: bool = True
    codes: bool = False


_FLOATS = ("float16", "bfloat16", "float32", "tfloat32")  # which Auto draws uniformly
_UNIT = (-1.0, 1.0)
_CONTINUOUS = {
    TensorSupplyType.Uniform: _Draw(_Distribution.UNIFORM, _UNIT),
    TensorSupplyType.Normal: _Draw(_Distribution.NORMAL, (-1.0, 1.0)),
    TensorSupplyType.Randn: _Draw(_Distribution.NORMAL, (0.0, 1.0)),
}


def _draw_of(kind: TensorSupplyType, dtype: DType) -> _Draw:
    """The distribution of the elements of a dtype."""
    if kind in (TensorSupplyType.Zero, TensorSupplyType.One):
        return _Draw(_Distribution.CONSTANT, (float(kind is TensorSupplyType.One), 0.0))
    if kind in _CONTINUOUS:
        # most of what is continuous would be cut to zero in bytes
        signed_bytes = dtype.kind is Kind.INT and dtype.bits <= 8 or dtype.is_float and dtype.bits == 4
        return _Draw(_Distribution.CONSTANT, (1.0, 0.0)) if signed_bytes and kind in _ONES else _CONTINUOUS[kind]
    if dtype.kind is Kind.UINT:
        return _Draw(_Distribution.INTEGERS, (0, 3))
    if dtype.is_float and dtype.bits == 8:
        return _Draw(_Distribution.INTEGERS, (-128, 128))
    if dtype.is_float and dtype.bits == 4:
        return _Draw(_Distribution.INTEGERS, (0, 16), codes=True)
    if dtype.is_bool:
        return _Draw(_Distribution.INTEGERS, (0, 2))
    if kind is TensorSupplyType.Auto and str(dtype) in _FLOATS:
        return _Draw(_Distribution.UNIFORM, _UNIT, wide=False)
    return _Draw(_Distribution.INTEGERS, (-2, 3))


_ONES = (TensorSupplyType.Uniform, TensorSupplyType.Normal)


def supply(
    param: Param | KernelParam,
    kind: TensorSupplyType = TensorSupplyType.Auto,
    sizes: Mapping[str, int] | None = None,
    device: str = "cpu",
) -> Any:
    """An argument for a parameter: a torch tensor if torch is imported, else a NumPy array; 1 for scalars.

    torch holds two elements of 4 bits in a byte; there the bytes are drawn.

    Args:
        param: The parameter.
        kind: What the elements are.
        sizes: Values of symbolic dims by name.
        device: "cpu", or a GPU as torch names it; then the tensor is torch's or CuPy's.

    Raises:
        ArgumentError: A symbolic dim has no value, or no framework at hand has arrays on a GPU.
    """
    described = param if isinstance(param, KernelParam) else KernelParam.of(param)
    if described.is_scalar():
        return 1.0 if described.dtype.is_float else 1
    shape, dtype = _shape(described, sizes or {}), lane_dtype(described.dtype)
    drawn = _draw_of(kind, dtype)
    torch = _framework("torch", device)
    if torch is not None and dtype.bits == 4 and shape[-1] % 2 == 0:
        bytes_shape = (*shape[:-1], shape[-1] // 2)
        row = torch.uint8 if dtype.kind is Kind.UINT else torch.int8
        values = _torch_values(torch, drawn, bytes_shape, row, device)
        return values if dtype.kind is Kind.UINT else values.view(dtype.as_torch())
    row = torch_dtype(dtype)
    if torch is not None and row is not None:
        return _torch_values(torch, drawn, shape, row, device)
    narrow = _numpy_values(drawn, shape, dtype)
    if device == "cpu":
        return narrow
    cupy = _framework("cupy", device)
    if cupy is None:
        raise ArgumentError(
            f"profiler: '{described.name}' of dtype {dtype!s} must be on a GPU, where neither torch nor CuPy can put "
            "it",
            hint="pip install torch with support for this GPU, or pass input_tensors=[...]; without a GPU, "
            "kernel.predict() estimates the time",
        )
    return cupy.asarray(narrow)


@public
def get_tensor_supply(supply_type: TensorSupplyType = TensorSupplyType.Auto) -> Callable[[Any], Any]:
    """A function that makes a tensor on the current device from a description of a parameter.

    The description has a `dtype` and a `shape` of ints, as the elements of `kernel.params` have.

    Args:
        supply_type: What the elements are.

    Raises:
        ValueError: At a call of that function: an extent is symbolic.
    """
    torch = _framework("torch", "cuda")
    device = "cuda" if torch is not None and torch.cuda.is_available() else "cpu"

    def make(param: Any) -> Any:
        name = getattr(param, "name", "") or "param"
        return supply(KernelParam(param.dtype, param.shape, name), supply_type, device=device)

    return make


def _framework(name: str, device: str) -> Any:
    """The imported framework; on a GPU, where NumPy has no arrays, also an installed one that has them there."""
    if device == "cpu" or name in sys.modules:
        found = sys.modules.get(name)
    else:
        try:
            found = importlib.import_module(name)
        except ImportError:
            return None
    has_none = device != "cpu" and name == "torch" and found is not None and not found.cuda.is_available()
    return None if has_none else found


def _shape(param: KernelParam, sizes: Mapping[str, int]) -> tuple[int, ...]:
    env: dict[Var, int] = {}
    for extent in param.shape:
        for node in walk_expr(extent) if isinstance(extent, Expr) else ():
            if isinstance(node, Var):
                if node.name not in sizes:
                    raise ArgumentError(
                        f"profiler: '{param.name}' has the symbolic dimension '{node.name}', which has no value",
                        hint=f"pass dynamic_symbolic_constraints={{'{node.name}': 1024}} to do_bench, or "
                        "input_tensors=[...]",
                    )
                env[node] = sizes[node.name]
    lanes = (param.dtype.lanes,) if param.dtype.lanes > 1 else ()
    return (*(int(evaluate(e, env)) if isinstance(e, Expr) else int(e) for e in param.shape), *lanes)


def _torch_values(torch: Any, draw: _Draw, shape: Sequence[int], row: object, device: str) -> Any:
    """A tensor generated on its device, by torch's generator of that device."""
    low, high = draw.bounds
    if draw.distribution is _Distribution.CONSTANT:
        return torch.full(shape, int(low), dtype=torch.uint8, device=device).to(row)
    if draw.distribution is _Distribution.INTEGERS:
        return torch.randint(int(low), int(high), shape, dtype=torch.int8, device=device).to(row)
    values = torch.empty(shape, dtype=torch.float32 if draw.wide else row, device=device)
    values = values.uniform_(low, high) if draw.distribution is _Distribution.UNIFORM else values.normal_(low, high)
    return values.to(row)


def _numpy_values(draw: _Draw, shape: Sequence[int], dtype: DType) -> np.ndarray:
    """The same as a NumPy array."""
    rng = np.random.default_rng(_seed())
    low, high = draw.bounds
    if draw.distribution is _Distribution.CONSTANT:
        return np.full(shape, low, np.float32).astype(dtype.numpy)
    if draw.distribution is _Distribution.INTEGERS:
        integers = rng.integers(int(low), int(high), shape)
        if draw.codes:
            codes: np.ndarray = integers.astype(np.uint8).view(dtype.numpy)
            return codes
        return integers.astype(np.float32 if dtype.is_float else np.int64).astype(dtype.numpy)
    generate = rng.uniform if draw.distribution is _Distribution.UNIFORM else rng.normal
    values = generate(low, high, shape)
    return values.astype(np.float32).astype(dtype.numpy)


def _seed() -> int:
    """Seeded by `torch.manual_seed` if torch is imported, else by `numpy.random.seed`."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.randint(0, 2**31 - 1, ()).item())
    return int(np.random.randint(2**31 - 1))
