"""Helpers of the simulation of instructions: values per lane, masks of lanes, undefined values."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tilelang.dtypes import DType, Kind
from tilelang.errors import SimulationError
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import AtomicOp
from tilelang.isa.function import Parameter, ParameterKind
from tilelang.isa.simulated import Warp

FULL_MASK = 0xFFFFFFFF
LANE_MASK = Parameter("mask", ParameterKind.LANES, default=FULL_MASK)
"""The participating lanes, by default all."""

REDUCE_OPERATORS: Mapping[str, BinaryOp] = MappingProxyType(
    {op.value: op.operator for op in AtomicOp if op.operator is not None}
)
"""Operators of reductions over lanes and of atomics, by their names in PTX and `ir.stmt`."""


def spread(warp: Warp, value: Any) -> np.ndarray:
    """An argument as an array with one entry per lane. Shape (lanes,)."""
    array = np.asarray(value)
    return array if array.ndim else np.full(warp.size, array)


def integers(warp: Warp, value: Any) -> np.ndarray:
    """An integer argument as one int64 per lane. Shape (lanes,)."""
    return spread(warp, value).astype(np.int64)


def masks_of(lanes: np.ndarray) -> np.ndarray:
    """The bit masks of the true lanes. Shapes: (..., lanes) -> (...), uint64."""
    bits = lanes.astype(np.uint64) << np.arange(lanes.shape[-1], dtype=np.uint64)
    return np.asarray(np.bitwise_or.reduce(bits, axis=-1))


def participants(warp: Warp, mask: Any, what: str) -> np.ndarray:
    """The lanes that execute an instruction together with each lane. Shape (lanes, lanes), bool; row by row.

    Raises:
        SimulationError: A lane executes the instruction with a mask that leaves it out, which is undefined in PTX.
    """
    everyone = (1 << warp.size) - 1
    if np.ndim(mask) == 0 and int(mask) & everyone == everyone and warp.active.all():
        return np.ones((warp.size, warp.size), bool)
    masks = spread(warp, np.asarray(mask).astype(np.uint64) & np.uint64(everyone))
    named = (masks[:, None] >> warp.lane.astype(np.uint64) & np.uint64(1)).astype(bool)
    outside = warp.active & ~named[warp.lane, warp.lane]
    if outside.any():
        lane = int(np.flatnonzero(outside)[0])
        raise SimulationError(
            f"{what}: lane {lane} executes it with the mask {int(masks[lane]):#x}, which does not include that lane",
            hint="include every lane that executes it in the mask",
        )
    warp.converge(masks, what)
    return np.asarray(named & warp.active[None, :])


def uniform(warp: Warp, value: Any, what: str) -> int:
    """The value of all active lanes, which must be equal.

    Raises:
        SimulationError: They do not.
    """
    if not np.ndim(value):
        return int(value)
    all_values = integers(warp, value)
    if all_values.tobytes() == all_values[:1].tobytes() * len(all_values):  # nearly always, and quickly seen
        return int(all_values[0])
    values: list[int] = sorted(set(all_values[warp.active].tolist()))
    if len(values) != 1:
        raise SimulationError(f"{what}: lanes of a warp disagree, they have {', '.join(map(str, values[:4]))}")
    return values[0]


def unknown(dtype: DType) -> Any:
    """A placeholder for an undefined value: NaN, or an unlikely number."""
    if dtype.is_float:
        return np.array(np.nan).astype(dtype.numpy)[()]
    if dtype.is_bool:
        return np.True_
    pattern = 0x5A5A5A5A5A5A5A5A & ((1 << dtype.bits) - 1)
    if dtype.kind is Kind.INT and pattern >> (dtype.bits - 1):
        pattern -= 1 << dtype.bits
    return np.array(pattern).astype(dtype.numpy)[()]
