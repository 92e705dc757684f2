"""Runs a random program compiled for the CPU, on a simulated GPU, or on a real one.

Each takes a function and its arguments, and gives the arguments after the run; it may change the ones that it got.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from light_compilation import light_flags

import tilelang
from tilelang.errors import ArgumentError, ProgramError, ResourceError
from tilelang.ir.compare import digest
from tilelang.ir.func import PrimFunc
from tilelang.jit import program, simulator_runner
from tilelang.options import CompileOptions
from tilelang.runtime.arguments import bind
from tilelang.runtime.parameters import Signature
from tilelang.runtime.variants import Variants
from tilelang.sim.parallel_loops import ParallelLoops
from tilelang.targets.nvidia.machines import MACHINES
from tilelang.targets.nvidia.runtime import device_code
from tilelang.targets.target import Target
from tilelang.testing import to_device, to_host

Runner = Callable[[PrimFunc, list[Any]], list[Any]]


def on_cpu(compile_flags: str | None) -> Runner:
    """Compiled for the CPU."""

    def run(func: PrimFunc, arguments: list[Any]) -> list[Any]:
        tilelang.compile(func, target="cpu", execution_backend="cc", compile_flags=compile_flags)(*arguments)
        return arguments

    return run


def on_simulator(arch: str, lazy: bool, seed: int, **pass_configs: Any) -> Runner:
    """On a simulated GPU, whose asynchronous copies complete late if `lazy`."""
    target = {"kind": "hip" if arch.startswith("gfx") else "cuda", "arch": arch}

    def run(func: PrimFunc, arguments: list[Any]) -> list[Any]:
        kernel = _compiled(func, pass_configs, target=target, execution_backend="simulator")
        kernel.simulate(*arguments, lazy=lazy, seed=seed)
        return arguments

    return run


def on_device(**pass_configs: Any) -> Runner:
    """On the GPU at hand."""

    def run(func: PrimFunc, arguments: list[Any]) -> list[Any]:
        there = [_to_device(a) if isinstance(a, np.ndarray) else a for a in arguments]
        _compiled(func, pass_configs, target="cuda")(*there)
        return [_to_host(t) if isinstance(a, np.ndarray) else a for t, a in zip(there, arguments, strict=True)]

    return run


def _compiled(func: PrimFunc, pass_configs: Mapping[str, Any], **keywords: Any) -> Any:
    """The kernel, without those of the random options that the program cannot have."""
    options = {f"tl.{name}": value for name, value in pass_configs.items()}
    while True:
        try:
            return tilelang.compile(func, pass_configs=options, **keywords)
        except (ProgramError, ResourceError) as error:
            refused = {key for key in options if f"'{key}'" in f"{error.message} {error.hint}"}
            if not error.message.startswith("pass_configs: ") or not refused:
                raise
            options = {key: value for key, value in options.items() if key not in refused}


class _Bytes:
    """An array on the GPU of a dtype that torch lacks, in bytes that torch holds."""

    def __init__(self, array: np.ndarray) -> None:
        import torch  # where there is a GPU, there is torch

        self._bytes = torch.tensor(np.ascontiguousarray(array).reshape(-1).view(np.uint8), device="cuda")
        self._dtype = array.dtype
        self.shape, self.strides = array.shape, array.strides

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        data = (self._bytes.data_ptr(), False)
        return {"typestr": self._dtype, "shape": self.shape, "strides": self.strides, "data": data, "version": 3}

    def on_host(self) -> np.ndarray:
        """A copy of the contents."""
        there = self._bytes.cpu().numpy().view(self._dtype)
        return np.lib.stride_tricks.as_strided(there, self.shape, self.strides)

    def narrowed(self, columns: int) -> _Bytes:
        """The first elements of each row, in the same memory."""
        part = copy.copy(self)
        part.shape = (*self.shape[:-1], columns)
        return part


def _to_device(array: np.ndarray) -> Any:
    """A copy on the GPU in which rows lie as far apart as they do on the host."""
    whole = array if array.flags.c_contiguous else array.base
    assert whole is not None
    try:
        there = to_device(whole, target="cuda")
    except ArgumentError:
        made = _Bytes(whole)
        return made if whole is array else made.narrowed(array.shape[-1])
    return there if whole is array else there[..., : array.shape[-1]]


def _to_host(array: Any) -> np.ndarray:
    if isinstance(array, _Bytes):
        return array.on_host()
    there: np.ndarray = to_host(array)
    return there


@contextmanager
def few_multiprocessors() -> Iterator[None]:
    """A Hopper GPU with so few multiprocessors that blocks of persistent kernels compute several tiles."""
    few = dataclasses.replace(MACHINES["sm_90a"], groups=(4,))
    with mock.patch.dict(MACHINES, {few.name: few}):
        yield


@contextmanager
def lightly_optimized() -> Iterator[None]:
    """NVRTC optimizes machine code less, if it can."""
    flags = device_code._flags
    lighter = light_flags()
    with mock.patch.object(device_code, "_flags", lambda *args: (*flags(*args), *lighter)):
        yield


@contextmanager
def one_by_one() -> Iterator[None]:
    """The reference interpreter executes iterations of parallel loops one by one."""
    with mock.patch.object(ParallelLoops, "run", lambda *args: False):
        yield


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
        mock.patch.object(Variants, "most_common", property(lambda self: facts)),
        mock.patch.object(program, "lowered", lowered),
        mock.patch.object(simulator_runner, "lowered", lowered),
    ):
        yield
