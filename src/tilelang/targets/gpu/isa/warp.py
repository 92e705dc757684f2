"""Warp-level instructions: shuffle, vote, match, elect, reduce.

`shuffle(mode, dtype)` and `redux(op, dtype)` make instructions, the others are constants. Invariant: all lanes of a
mask must execute the instruction together; the value of a lane that does not is undefined.

Source: PTX ISA, "Data Movement and Conversion Instructions: shfl.sync", "Parallel Synchronization and Communication
Instructions: vote.sync, match.sync, activemask, redux.sync, elect.sync"; CUDA C++ Programming Guide, "Warp Shuffle
Functions", "Warp Vote Functions", "Warp Match Functions", "Warp Reduce Functions".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache, partial, reduce
from typing import Any

import numpy as np

from tilelang.dtypes import BOOL, FLOAT32, SCALARS, DType, as_dtype
from tilelang.errors import CompilerBug, NoLowering, ProgramError, ProgramValueError
from tilelang.ir.expr import const
from tilelang.ir.scalar import data_binary
from tilelang.isa.function import Function, Parameter, ParameterKind
from tilelang.isa.instruction import ExecutionScope, Instruction
from tilelang.isa.simulated import Warp
from tilelang.targets.gpu.isa.lanes import (
    FULL_MASK,
    LANE_MASK,
    REDUCE_OPERATORS,
    integers,
    masks_of,
    participants,
    spread,
    unknown,
)
from tilelang.targets.machine import CommonFeature

_UINT32, _UINT64 = SCALARS["uint32"], SCALARS["uint64"]
_COMMUNICATION = "PTX ISA, 'Parallel Synchronization and Communication Instructions: {}'"
_SHUFFLES = ("idx", "up", "down", "xor")


@cache
def shuffle(mode: str, dtype: DType) -> Instruction:
    """Returns the value of another lane.

    The operands are the mask of lanes, the value, an offset n and the width: a power of two that divides the warp into
    segments. The source lane is n of the segment ("idx"), lane - n ("up"), lane + n ("down"), or lane ^ n ("xor");
    outside of the segment, a lane keeps its own value.

    Raises:
        NoLowering: There is no such mode, or the dtype is a vector of more than 32 bits.
    """
    if mode not in _SHUFFLES:
        raise NoLowering(f"shuffle: no mode {mode!r}", hint=f"the modes are {', '.join(_SHUFFLES)}")
    if dtype.lanes > 1 and dtype.storage_bytes > 4:
        raise NoLowering(f"shuffle: {dtype!s} is wider than one register", hint="shuffle its parts")

    def simulate(warp: Warp, mask: Any, value: Any, offset: Any, width: Any) -> np.ndarray:
        values = np.asarray(value)
        values = np.broadcast_to(values, (warp.size, *values.shape[1:]) if values.ndim else (warp.size,))
        source = _source_lane(mode, warp.lane, integers(warp, offset), integers(warp, width))
        participates = participants(warp, mask, f"shuffle {mode}")[warp.lane, source]
        taken = values[source].copy()
        taken[~participates] = unknown(dtype)
        return np.asarray(taken)

    return Instruction(
        f"shuffle_{mode}_{dtype!s}",
        {},
        {},
        simulate,
        execution_scope=ExecutionScope.WARP,
        result=dtype,
        keeps_uniform=mode == "idx",
        source="PTX ISA, 'Data Movement and Conversion Instructions: shfl.sync'",
        dialect_key=("shuffle", mode, dtype),
    )


def _source_lane(mode: str, lane: np.ndarray, offset: np.ndarray, width: np.ndarray) -> np.ndarray:
    """The source lane of each lane."""
    first = lane & ~(width - 1)
    last = first + width - 1
    match mode:
        case "idx":
            return np.asarray(first | offset & width - 1)
        case "up":
            other = lane - offset
            return np.where(other >= first, other, lane)
        case "down":
            other = lane + offset
        case _:
            other = lane ^ offset
    return np.where(other <= last, other, lane)


def _vote(name: str, result: DType, answer: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Instruction:
    """An instruction with a mask and a predicate; `answer` gets the participants of each lane, and the predicates."""

    def simulate(warp: Warp, mask: Any, predicate: Any) -> np.ndarray:
        return answer(participants(warp, mask, name), spread(warp, predicate).astype(bool))

    return _constant(name, simulate, result, "vote.sync")


def _constant(
    name: str, simulate: Callable[..., Any], result: DType, operation: str, *, instead: str = ""
) -> Instruction:
    source = _COMMUNICATION.format(operation)
    return Instruction(
        name,
        {},
        {},
        simulate,
        execution_scope=ExecutionScope.WARP,
        result=result,
        instead=instead,
        source=source,
        dialect_key=(name,),
    )


def _words(lanes: np.ndarray) -> np.ndarray:
    """Masks as uint32 results, one bit per lane."""
    if lanes.shape[-1] > _UINT32.bits:
        raise CompilerBug(f"a mask of {lanes.shape[-1]} lanes does not fit {_UINT32!s}")
    return masks_of(lanes).astype(np.uint32)


BALLOT = _vote("ballot", _UINT32, lambda lanes, yes: _words(lanes & yes))
"""The mask of lanes whose predicate is true; the operands are the mask of lanes and the predicate."""

BALLOT_WIDE = dataclasses.replace(
    _vote("ballot", _UINT64, lambda lanes, yes: masks_of(lanes & yes)), dialect_key=("ballot", _UINT64.bits)
)
"""`BALLOT` of a warp of 64 lanes."""

ANY = _vote("any", BOOL, lambda lanes, yes: (lanes & yes).any(axis=1))
"""Whether the predicate is true in any lane; operands as for `BALLOT`."""

ALL = _vote("all", BOOL, lambda lanes, yes: (~lanes | yes).all(axis=1))
"""Whether the predicate is true in all lanes; operands as for `BALLOT`."""


def _same_bits(warp: Warp, value: Any) -> np.ndarray:
    """Whether pairs of lanes have the same bits. Shape (lanes, lanes)."""
    octets = np.ascontiguousarray(spread(warp, value)).view(np.uint8).reshape(warp.size, -1)
    return np.asarray((octets[:, None, :] == octets[None, :, :]).all(axis=2))


def _match_any(warp: Warp, mask: Any, value: Any) -> np.ndarray:
    return _words(participants(warp, mask, "match any") & _same_bits(warp, value))


def _match_all(warp: Warp, mask: Any, value: Any) -> np.ndarray:
    lanes = participants(warp, mask, "match all")
    agreed = (~lanes | _same_bits(warp, value)).all(axis=1)
    return np.where(agreed, _words(lanes), np.uint32(0))


MATCH_ANY = _constant("match_any", _match_any, _UINT32, "match.sync")
"""The mask of lanes with the same bits as this one; the operands are the mask of lanes and a scalar."""

MATCH_ALL = _constant("match_all", _match_all, _UINT32, "match.sync")
"""The mask if all its lanes have the same bits, otherwise 0; operands as for `MATCH_ANY`."""


def _active_mask(warp: Warp) -> np.ndarray:
    return np.full(warp.size, _words(warp.active))


ACTIVE_MASK = _constant("active_mask", _active_mask, _UINT32, "activemask")
"""The mask of lanes that currently execute together; no operands."""


def _elect(warp: Warp, mask: Any) -> np.ndarray:
    lanes = participants(warp, mask, "elect")
    return np.asarray(lanes.any(axis=1) & (lanes.argmax(axis=1) == warp.lane))


ELECT = _constant(
    "elect", _elect, BOOL, "elect.sync", instead="write T.get_lane_idx() == 0, which holds in one lane of a warp"
)
"""Whether the lane is the elected one; the operand is the mask of lanes. The simulator elects the first."""


@cache
def redux(op: str, dtype: DType) -> Instruction:
    """The reduction of a number over the lanes of a mask, returned in all of them.

    The operands are the mask of lanes and the value; sums wrap, and min and max propagate NaN. Reductions of floats are
    implemented by those of integers.

    Raises:
        NoLowering: The machine reduces only int32 and uint32, by "add", "min", "max", "and", "or" and "xor", and
            float32 by "min" and "max".
    """
    is_float = dtype == "float32" and op in ("min", "max")
    if not is_float and (op not in REDUCE_OPERATORS or dtype not in ("int32", "uint32")):
        raise NoLowering(f"redux: no instruction for {op!r} on {dtype!s}", hint="reduce with shuffles")
    combine = REDUCE_OPERATORS[op]

    def simulate(warp: Warp, mask: Any, value: Any) -> np.ndarray:
        lanes, values = participants(warp, mask, f"redux {op}"), spread(warp, value).astype(dtype.numpy)
        total = np.full(warp.size, unknown(dtype))
        for group in np.unique(lanes[warp.active], axis=0):  # mostly all lanes
            members = warp.active & (lanes == group).all(axis=1)
            total[members] = reduce(lambda a, b: data_binary(combine, a, b, dtype), values[group])
        return total

    return Instruction(
        f"redux_{op}_{dtype!s}",
        {},
        {},
        simulate,
        execution_scope=ExecutionScope.WARP,
        result=dtype,
        needs=CommonFeature.REDUCE_LANES,
        source=_COMMUNICATION.format("redux.sync"),
        dialect_key=("redux", op, dtype),
    )


_WIDTH = 32  # of the groups of lanes that a shuffle counts in, where it is left out


def _check_width(what: str, width: Any) -> None:
    if width not in (1, 2, 4, 8, 16, 32, 64):
        raise ProgramError(f"{what}: width is {width!r:.40}", hint="write 1, 2, 4, 8, 16 or 32, or 64 for wide warps")


def _check_warp_size(what: str, size: Any) -> None:
    if size != _WIDTH:
        raise ProgramValueError(f"{what}: a warp has {_WIDTH} lanes, not {size!r:.40}")


def _shuffle_function(name: str, mode: str, lane: Parameter, doc: str, *, docs: tuple[str, str, str]) -> Function:
    value, width, mask = docs
    return Function(
        name,
        partial(shuffle, mode),
        doc,
        (
            Parameter("value", ParameterKind.SCALAR, value),
            lane,
            Parameter("width", ParameterKind.CONSTANT, width, default=_WIDTH, check=_check_width),
            Parameter("mask", ParameterKind.LANES, mask, default=FULL_MASK),
        ),
        operands=("mask", "value", lane.name, "width"),
        gives_value=True,
    )


def _shuffle_of_tvm(name: str, mode: str, lane: str, other: str) -> Function:
    """A function with the operand order of TVM."""
    return Function(
        name,
        partial(shuffle, mode),
        f"`T.{other}(value, {lane}, width, mask)`.",
        (
            Parameter("mask", ParameterKind.LANES),
            Parameter("value", ParameterKind.SCALAR),
            Parameter(lane, ParameterKind.VALUE),
            Parameter("width", ParameterKind.CONSTANT, check=_check_width),
            Parameter("warp_size", ParameterKind.CONSTANT, default=_WIDTH, check=_check_warp_size),
        ),
        operands=("mask", "value", lane, "width"),
        gives_value=True,
    )


def _vote_function(name: str, instruction: Instruction, doc: str, **more: Any) -> Function:
    parameters = (Parameter("predicate", ParameterKind.PREDICATE), LANE_MASK)
    return Function(name, instruction, doc, parameters, operands=("mask", "predicate"), **more)


def _match_function(name: str, instruction: Instruction, doc: str) -> Function:
    parameters = (Parameter("value", ParameterKind.INTEGER), LANE_MASK)
    return Function(name, instruction, doc, parameters, operands=("mask", "value"))


def _redux_function(op: str, doc: str, value: str = "") -> Function:
    return Function(
        f"warp_redux_{op}",
        partial(redux, op),
        doc,
        (Parameter("value", ParameterKind.SCALAR, value), LANE_MASK),
        operands=("mask", "value"),
        gives_value=True,
        raises=("NoLowering: The instruction does not take that dtype, or the GPU has none.",) if value else (),
    )


_NO_DOCS = ("", "", "")
_DELTA = Parameter("delta", ParameterKind.VALUE)

FUNCTIONS = (
    _shuffle_function(
        "shfl_sync",
        "idx",
        Parameter(
            "srcLane", ParameterKind.VALUE, "The source lane, within segments of `width` lanes."
        ),
        "The value of lane `srcLane`.",
        docs=(
            "The value of each lane, of any scalar dtype.",
            "1, 2, 4, 8, 16 or 32; 64 where warps have 64 lanes.",
            "The participating lanes, one bit each.",
        ),
    ),
    _shuffle_function(
        "shfl_xor",
        "xor",
        _DELTA,
        "The value of lane `lane ^ delta`. As `T.shfl_sync` otherwise.",
        docs=_NO_DOCS,
    ),
    _shuffle_function(
        "shfl_up",
        "up",
        _DELTA,
        "The value of lane `lane - delta`, or the own value if there is none. As `T.shfl_sync` otherwise.",
        docs=_NO_DOCS,
    ),
    _shuffle_function(
        "shfl_down",
        "down",
        _DELTA,
        "The value of lane `lane + delta`, or the own value if there is none. As `T.shfl_sync` otherwise.",
        docs=_NO_DOCS,
    ),
    _shuffle_of_tvm("tvm_warp_shuffle", "idx", "lane", "shfl_sync"),
    _shuffle_of_tvm("tvm_warp_shuffle_up", "up", "offset", "shfl_up"),
    _shuffle_of_tvm("tvm_warp_shuffle_down", "down", "offset", "shfl_down"),
    _vote_function("any_sync", ANY, "Whether the condition is true in any participating lane."),
    _vote_function("all_sync", ALL, "Whether the condition is true in all participating lanes."),
    _vote_function(
        "ballot_sync",
        BALLOT,
        "The lanes in which the condition is true, one bit each, as a uint64.",
        result=SCALARS["uint64"],
        raises=("ProgramTypeError: The predicate is neither an integer nor a bool.",),
    ),
    Function(
        "ballot",
        BALLOT,
        "`T.ballot_sync` of all lanes of the warp.",
        (Parameter("predicate", ParameterKind.PREDICATE),),
        operands=(const(FULL_MASK, _UINT32), "predicate"),
        result=SCALARS["uint64"],
    ),
    _match_function(
        "match_any_sync", MATCH_ANY, "The lanes with the same value as this one, one bit each, as a uint32."
    ),
    _match_function(
        "match_all_sync", MATCH_ALL, "`mask` if all participating lanes have the same value, else 0, as a uint32."
    ),
    _redux_function(
        "add",
        """The sum over the lanes that take part, the same in each of them, by one instruction.

        Sums wrap. `T.warp_reduce_sum` takes other dtypes and GPUs, too, by shuffles.
        """,
        "What each lane adds, an int32 or uint32.",
    ),
    _redux_function(
        "min",
        "The minimum over the participating lanes, or NaN. As `T.warp_redux_add` otherwise.",
        "An int32, uint32 or float32.",
    ),
    _redux_function(
        "max",
        "The maximum over the participating lanes, or NaN. As `T.warp_redux_add` otherwise.",
        "An int32, uint32 or float32.",
    ),
    _redux_function("and", "The bitwise and over the participating lanes. As `T.warp_redux_add` otherwise."),
    _redux_function("or", "The bitwise or over the participating lanes. As `T.warp_redux_add` otherwise."),
    _redux_function("xor", "The bitwise exclusive or over the participating lanes. As `T.warp_redux_add` otherwise."),
    Function(
        "activemask",
        ACTIVE_MASK,
        "The lanes of the warp that currently execute together, one bit each, as a uint32.",
        aliases=("tvm_warp_activemask",),
    ),
)


def instructions() -> Iterator[Instruction]:
    """The instructions of this file, families with each supported dtype."""
    for dtype in (*SCALARS.values(), as_dtype("float16x2"), as_dtype("int8x4")):
        yield from (shuffle(mode, dtype) for mode in _SHUFFLES)
    yield from (BALLOT, ANY, ALL, MATCH_ANY, MATCH_ALL, ACTIVE_MASK, ELECT)
    yield from (redux(op, FLOAT32) for op in ("min", "max"))
    for name in ("int32", "uint32"):
        yield from (redux(op, SCALARS[name]) for op in ("add", "min", "max", "and", "or", "xor"))
