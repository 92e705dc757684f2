"""The predicted time of a program that was lowered, with the registers of its machine code where that was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilelang.ir.func import PrimFunc
from tilelang.options import CompileOptions
from tilelang.performance.predict import predict
from tilelang.performance.prediction import Prediction
from tilelang.targets.target import Target

if TYPE_CHECKING:
    from tilelang.targets.gpu.runtime.device_code import DeviceCode


def predicted(func: PrimFunc, target: Target, options: CompileOptions, code: DeviceCode | None = None) -> Prediction:
    """The time of a thread-level program.

    Args:
        func: The program after all passes.
        target: What it was lowered for.
        options: How.
        code: Its machine code, if it is compiled; otherwise registers are estimated.

    Raises:
        OptionError: The model has no figures of the machine.
        ProgramValueError: A size is symbolic.
    """
    used = {} if code is None else {n: code.resources.get(each.name) for n, each in enumerate(code.source.launches)}
    registers = {number: each.registers for number, each in used.items() if each is not None}
    return predict(func, target.machine, fast_math=options.fast_math, registers=registers)
