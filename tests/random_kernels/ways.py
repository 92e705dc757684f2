"""The ways to run a random program: compiled for the CPU, on a simulated GPU, on a real one.

Each takes a function and its arguments, and gives the arguments after the run; it may change the ones that it got.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from random_kernels.programs import Program as RandomProgram

import tilelang
from tilelang import target
from tilelang.errors import ArgumentError
from tilelang.ir.compare import digest
from tilelang.ir.func import PrimFunc
from tilelang.jit import program, simulator_runner
from tilelang.options import CompileOptions
from tilelang.runtime.arguments import bind
from tilelang.runtime.parameters import Signature
from tilelang.runtime.variants import Variants
from tilelang.target import Target
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


def can_be_moved(random: RandomProgram) -> bool:
    """Whether torch has all the dtypes that a program's tensors have."""
    try:
        for array in random.copies():
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


@contextmanager
def compiled_once(func: PrimFunc, arguments: Sequence[Any]) -> Iterator[None]:
    """Kernels are compiled for the sizes of one call and not also for the usual ones, and lowered once per GPU.

    What is lowered for the simulator is then printed for the device.
    """
    signature = Signature.of(func, None)
    variants = Variants(signature)
    bound = bind(signature, arguments)
    facts = variants.of(bound.values, bound.symbols)
    known: dict[tuple[str, str, str], PrimFunc] = {}
    lower = program.lowered

    def lowered(func: PrimFunc, target: Target, options: CompileOptions) -> PrimFunc:
        key = (digest(func), str(target), options.key)
        if key not in known:
            known[key] = lower(func, target, options)
        return known[key]

    with (
        mock.patch.object(Variants, "usual", property(lambda self: facts)),
        mock.patch.object(program, "lowered", lowered),
        mock.patch.object(simulator_runner, "lowered", lowered),
    ):
        yield
