"""Predicts the time of a program that has been lowered to threads."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from tilelang.errors import OptionError, ProgramValueError
from tilelang.ir.expr import Expr, int_const
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import For, If, Launch
from tilelang.ir.visit import walk
from tilelang.performance.block import estimate_block
from tilelang.performance.prediction import Prediction, predicted
from tilelang.performance.registers import expected_registers
from tilelang.performance.structure import by_work, depends_on
from tilelang.performance.work import BlockWork, LaunchWork
from tilelang.targets.machine import Machine, Rates

_SIMPSON = (1 / 6, 4 / 6, 1 / 6)  # the weights of Simpson's rule, exact where work grows evenly from block to block


def predict(
    func: PrimFunc, machine: Machine, *, fast_math: bool = False, registers: Mapping[int, int] | None = None
) -> Prediction:
    """The time of a thread-level program on a machine.

    Args:
        func: The program, with constant sizes.
        machine: What it was lowered for.
        fast_math: Whether functions are the fast ones.
        registers: Of a thread of each launch by its number, if it is compiled.

    Raises:
        OptionError: The record of the machine has neither rates nor a data sheet.
        ProgramValueError: A size of a grid is symbolic.
    """
    sheet = machine.data_sheet
    rates: Rates
    if machine.rates is not None and machine.multiprocessors:
        device, rates = "", machine.rates
    elif sheet is not None:
        device, machine, rates = sheet.device, sheet.machine, sheet.rates
    else:
        raise OptionError(
            f"predict: the model has no figures of {machine.name}",
            hint="it knows GPUs; measure the kernel with kernel.get_profiler()",
        )
    launches = [stmt for stmt in walk(func.body) if isinstance(stmt, Launch)]
    work = []
    for number, launch in enumerate(launches):
        with launch.loc:
            known = (registers or {}).get(number) or expected_registers(launch, machine, rates)
            work.append(_work(launch, machine, rates, known, fast_math=fast_math))
    return dataclasses.replace(predicted(work, machine, rates), data_sheet=device)


def _work(launch: Launch, machine: Machine, rates: Rates, registers: int, *, fast_math: bool) -> LaunchWork:
    grid = tuple(_constant(extent) for extent in launch.grid)
    count = math.prod(grid)
    alike = not depends_on(launch.body, launch.block_vars, For, If)
    block = BlockWork()
    for place, share in _typical_blocks(launch, grid, count, alike=alike):
        index = tuple(int(own) for own in np.unravel_index(place, grid, order="F"))
        block.add(estimate_block(launch, machine, rates, index, registers, fast_math=fast_math), share)
    return LaunchWork(
        block, count, launch.num_threads, launch.plan.shared_bytes, registers, math.prod(launch.hints.cluster)
    )


def _typical_blocks(launch: Launch, grid: tuple[int, ...], count: int, *, alike: bool) -> list[tuple[int, float]]:
    """A few blocks and the shares of all for which they stand: those with the least, the middle and the most work."""
    if alike or not count:
        return [(count // 2, 1.0)][:count]
    indices = np.unravel_index(np.arange(count), grid, order="F")
    order = by_work(launch.body, count, dict(zip(launch.block_vars, indices, strict=True)))
    return [(int(order[place]), share) for place, share in zip((0, count // 2, count - 1), _SIMPSON, strict=True)]


def _constant(extent: Expr) -> int:
    value = int_const(extent)
    if value is None:
        raise ProgramValueError(
            f"predict: the grid has {extent!s} blocks, which is only known when the kernel runs",
            hint="predict a kernel of constant sizes",
        )
    return value
