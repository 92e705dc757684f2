"""The records of a plan's launches in memory, for `launch.cpp`.

Takes launches whose grids are known, gives the address of a `State`. Invariant:
records are written whole before anyone can see them, and are never changed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilelang.codegen.source import KernelArgument
from tilelang.runtime.checker import Checker, address_of
from tilelang.runtime.native_call import NotNative
from tilelang.runtime.parameters import Signature
from tilelang.targets.cpu.runtime.checker_builder import CheckerBuilder, build
from tilelang.targets.gpu.runtime.device_program import DeviceProgram
from tilelang.targets.gpu.runtime.driver import Driver
from tilelang.targets.gpu.runtime.launch_block import (
    ARGUMENTS_OFFSET,
    Block,
    EncodedMaps,
    Placed,
    Slot,
    make_block,
    size_of,
)

LAUNCH_TEXT = Path(__file__).with_name("launch.cpp")
BUILDER = CheckerBuilder(lambda: build(LAUNCH_TEXT))

_MAX_ARGUMENTS, _MAX_BYTES = 192, 4096  # as in launch.cpp
_STATUS_BITS = 32
_WORD, _ADDRESS = ctypes.c_int64, ctypes.c_void_p


class _Argument(ctypes.Structure):
    _fields_ = (("slot", _WORD), ("offset", _WORD), ("size_bytes", _WORD), ("narrowed", _WORD))


class _Map(ctypes.Structure):
    _fields_ = (
        ("slot", _WORD), ("offset", _WORD), ("address", ctypes.c_uint64), ("dims", _ADDRESS),
        ("strides", _ADDRESS), ("box", _ADDRESS), ("steps", _ADDRESS), ("rank", ctypes.c_uint32),
        *((name, ctypes.c_int) for name in ("dtype", "interleaved", "swizzle", "promotion", "outside")),
    )  # fmt: skip


class _Launch(ctypes.Structure):
    _fields_ = (
        ("config", _ADDRESS), ("function", _ADDRESS), ("arguments", _ADDRESS), ("argument_bytes", _WORD),
        ("argument_count", _WORD), ("filled_count", _WORD), ("map_count", _WORD), ("offsets", _ADDRESS),
        ("filled", _ADDRESS), ("maps", _ADDRESS),
    )  # fmt: skip


class _State(ctypes.Structure):
    _fields_ = (
        *((name, _ADDRESS) for name in ("context_of", "launch", "launch_values", "encode", "context", "failure")),
        ("launch_count", _WORD), ("launches", _ADDRESS),
    )  # fmt: skip


def start_of(checker: Checker) -> int:
    """The function of launch.cpp that a `NativePlan` starts with."""
    return address_of(checker.library, "tilelang_launch")


def failed_launch(answer: int) -> tuple[int, int]:
    """The driver's status out of what that function answers, and the number of the launch."""
    return answer & ((1 << _STATUS_BITS) - 1), answer >> _STATUS_BITS


def launch_state(
    driver: Driver, placed: Sequence[Placed], program: DeviceProgram, context: int, flag: int, kept: list[Any]
) -> int:
    """The address of a new `State`.

    Args:
        driver: Launches.
        placed: What is launched; it has been launched once.
        program: What it is part of.
        context: In which the kernels are loaded.
        flag: The address to which failed assertions report; 0 without assertions.
        kept: Receives the objects that must outlive the state.

    Raises:
        NotNative: A launch has something that launch.cpp does not do.
    """
    writer = _Writer(program.signature, kept)
    block = make_block(placed)
    if driver.functions.launch_values and any(slot.attribute_count for slot in block.slots):
        raise NotNative  # launch.cpp gives values and no attributes
    launches = [writer.launch(part, block, slot, flag) for part, slot in zip(placed, block.slots, strict=True)]
    names = driver.functions
    functions = map(driver.address, (names.context_of, names.launch, names.launch_values, names.encode_map))
    state = _State(*functions, context, flag or None, len(launches), writer.array(_Launch, launches))
    kept += [block, state]
    return ctypes.addressof(state)


class _Writer:
    """Writes records for a program of a signature, and keeps what they point to."""

    def __init__(self, signature: Signature, kept: list[Any]) -> None:
        self._signature, self._kept = signature, kept

    def array(self, kind: Any, values: Sequence[Any]) -> int | None:
        """The address of an array."""
        if not values:
            return None
        array = (kind * len(values))(*values)
        self._kept.append(array)
        return ctypes.addressof(array)

    def launch(self, placed: Placed, block: Block, slot: Slot, flag: int) -> _Launch:
        """One launch, whose memory is written."""
        layout, config = placed.format, slot.config.value or 0
        if len(layout.letters) > _MAX_ARGUMENTS or layout.argument_bytes > _MAX_BYTES:
            raise NotNative
        if any(argument.kind == "prints" for argument in placed.launch.arguments):
            raise NotNative  # the host writes what is printed
        filled: list[_Argument] = []
        encoded: list[_Map] = []
        fixed: list[int | float | bytes] = []
        for argument, letter, offset in zip(placed.launch.arguments, layout.letters, layout.offsets, strict=True):
            if argument.kind == "tensor_map":
                maps: EncodedMaps = placed.maps[argument.index]
                tensor, *fields = maps.native_fields(offset, self._kept)
                encoded.append(_Map(self._place_of_tensor(tensor), *fields))
                fixed.append(maps[encoded[-1].address])
            elif argument.kind == "failure":
                fixed.append(flag)
            else:
                filled.append(_Argument(self._place(argument, letter), offset, size_of(letter), letter == "f"))
                fixed.append(0.0 if letter in "fd" else 0)
        layout.write(block, slot, 0, fixed)
        return _Launch(
            config, placed.function, config + ARGUMENTS_OFFSET, layout.argument_bytes, len(layout.letters),
            len(filled), len(encoded), self.array(_WORD, layout.offsets), self.array(_Argument, filled),
            self.array(_Map, encoded),
        )  # fmt: skip

    def _place_of_tensor(self, index: int) -> int:
        """Where the address of a parameter lies, or of a workspace after them."""
        params, symbols = self._signature.params, self._signature.symbols
        return index if index < len(params) else len(symbols) + index

    def _place(self, argument: KernelArgument, letter: str) -> int:
        """Where the value of an argument lies: after the parameters are symbols, then workspaces."""
        params, symbols = self._signature.params, self._signature.symbols
        if argument.kind == "symbol":
            return len(params) + argument.index
        if argument.kind == "workspace":
            return len(params) + len(symbols) + argument.index
        dtype = params[argument.index].dtype
        if argument.kind == "scalar" and dtype.is_float and letter != {32: "f", 64: "d"}.get(dtype.bits):
            raise NotNative  # the value has to be rounded first
        return argument.index
