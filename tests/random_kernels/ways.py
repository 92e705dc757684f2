"""The ways to run a random program: compiled for the CPU, on a simulated GPU, on a real one.

Each takes a function and its arguments, and gives the arguments after the run; it may change the ones that it got.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from random_kernels.programs import Program

import tilelang
from tilelang import target
from tilelang.errors import ArgumentError
from tilelang.ir.func import PrimFunc
from tilelang.testing import to_device, to_host

Way = Callable[[PrimFunc, list[Any]], list[Any]]


def on_cpu(compile_flags: str | None) -> Way:
    """Compiled for the CPU."""

    def run(func: PrimFunc, arguments: list[Any]) -> list[Any]:
        tilelang.compile(func, target="cpu", execution_backend="cc", compile_flags=compile_flags)(*arguments)
        return arguments

    return run


def on_simulator(arch: str, lazy: bool, seed: int, **pass_configs: Any) -> Way:
    """On a simulated GPU, whose copies in the background arrive late if `lazy`."""

    def run(func: PrimFunc, arguments: list[Any]) -> list[Any]:
        device, options = {"kind": "cuda", "arch": arch}, {f"tl.{name}": value for name, value in pass_configs.items()}
        kernel = tilelang.compile(func, target=device, execution_backend="simulator", pass_configs=options)
        kernel.simulate(*arguments, lazy=lazy, seed=seed)
        return arguments

    return run


def on_device(**pass_configs: Any) -> Way:
    """On the GPU at hand."""

    def run(func: PrimFunc, arguments: list[Any]) -> list[Any]:
        options = {f"tl.{name}": value for name, value in pass_configs.items()}
        there = [_to_device(a) if isinstance(a, np.ndarray) else a for a in arguments]
        tilelang.compile(func, target="cuda", pass_configs=options)(*there)
        return [to_host(t) if isinstance(a, np.ndarray) else a for t, a in zip(there, arguments, strict=True)]

    return run


def can_be_moved(program: Program) -> bool:
    """Whether torch has all the dtypes that a program's tensors have."""
    try:
        for array in program.copies():
            if isinstance(array, np.ndarray):
                _to_device(array)
    except ArgumentError:
        return False
    return True


def _to_device(array: np.ndarray) -> Any:
    """A copy on the GPU in which rows lie as far apart as they do on the host."""
    if array.flags.c_contiguous:
        return to_device(array, target="cuda")
    return to_device(array.base, target="cuda")[..., : array.shape[-1]]


@contextmanager
def few_groups() -> Iterator[None]:
    """A Hopper GPU that runs so few blocks at once that those which stay have several tiles."""
    before = target.ARCHITECTURES
    few = dataclasses.replace(before["sm_90a"], groups=(4,))
    target.ARCHITECTURES = {**before, "sm_90a": few}  # type: ignore[assignment]
    try:
        yield
    finally:
        target.ARCHITECTURES = before
