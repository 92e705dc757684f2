"""What the meanings of instructions have in common: one value per lane, masks of lanes, and values that nobody knows.

Takes and gives arrays with one entry per lane.
"""

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
"""The lanes that take part, all of them if it is left out."""

REDUCE_OPERATORS: Mapping[str, BinaryOp] = MappingProxyType(
    {op.value: op.operator for op in AtomicOp if op.operator is not None}
)
"""Operators of reductions over lanes and of atomics, by their names in PTX and `ir.stmt`."""


def spread(warp: Warp, value: Any) -> np.ndarray:
    """An argument as an array with one entry per lane. Shape (lanes,)."""
    return np.broadcast_to(np.asarray(value), (warp.size,))


def integers(warp: Warp, value: Any) -> np.ndarray:
    """An integer argument as one int64 per lane. Shape (lanes,)."""
    return spread(warp, value).astype(np.int64)


def masks_of(lanes: np.ndarray) -> np.ndarray:
    """The masks with a bit for each lane that is true. Shapes: (..., lanes) -> (...), uint64."""
    bits = lanes.astype(np.uint64) << np.arange(lanes.shape[-1], dtype=np.uint64)
    return np.asarray(np.bitwise_or.reduce(bits, axis=-1))


def participants(warp: Warp, mask: Any, what: str) -> np.ndarray:
    """Which lanes take part in an instruction together with each lane. Shape (lanes, lanes), bool; row by row.

    Raises:
        SimulationError: A lane executes the instruction with a mask that leaves it out, which PTX does not define.
    """
    masks = spread(warp, np.asarray(mask).astype(np.uint64) & np.uint64((1 << warp.size) - 1))
    named = (masks[:, None] >> warp.lane.astype(np.uint64) & np.uint64(1)).astype(bool)
    outside = warp.active & ~named[warp.lane, warp.lane]
    if outside.any():
        lane = int(np.flatnonzero(outside)[0])
        raise SimulationError(
            f"{what}: lane {lane} executes it with the mask {int(masks[lane]):#x}, which leaves that lane out",
            hint="name every lane that gets here in the mask",
        )
    warp.converge(masks, what)
    return np.asarray(named & warp.active[None, :])


def uniform(warp: Warp, value: Any, what: str) -> int:
    """The value that all active lanes agree on.

    Raises:
        SimulationError: They do not.
    """
    values = np.unique(integers(warp, value)[warp.active])
    if values.size != 1:
        raise SimulationError(f"{what}: lanes of a warp disagree, they have {', '.join(map(str, values[:4]))}")
    return int(values[0])


def unknown(dtype: DType) -> Any:
    """A stand-in for a value that the machine does not define: NaN, or a number that nobody expects."""
    if dtype.is_float:
        return np.array(np.nan).astype(dtype.numpy)[()]
    if dtype.is_bool:
        return np.True_
    pattern = 0x5A5A5A5A5A5A5A5A & ((1 << dtype.bits) - 1)
    if dtype.kind is Kind.INT and pattern >> (dtype.bits - 1):
        pattern -= 1 << dtype.bits
    return np.array(pattern).astype(dtype.numpy)[()]
