"""The outcome of one random program on every executor: agreement, a difference, or why it was not run, and its time."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from random_kernels.checking import by_reference, compare_with, load
from random_kernels.choices import Seeded
from random_kernels.gemm_loops import GemmLoopPrograms
from random_kernels.gemm_programs import GemmPrograms
from random_kernels.lanes import LanePrograms
from random_kernels.layout_programs import LayoutPrograms
from random_kernels.operators import OperatorPrograms
from random_kernels.programs import Program, Programs
from random_kernels.runners import (
    Runner,
    compiled_once,
    few_multiprocessors,
    lightly_optimized,
    on_cpu,
    on_device,
    on_simulator,
    one_by_one,
)
from random_kernels.warp_specialized_programs import WarpSpecializedPrograms, schedule_overrides

from tilelang.errors import ResourceError
from tilelang.ir.func import PrimFunc
from tilelang.targets.cpu.runtime import toolchain
from tilelang.targets.nvidia.present_device import present_arch

ARCHITECTURES = ("sm_80", "sm_75", "sm_90a")
AMD_ARCHITECTURES = ("gfx942", "gfx1100", "gfx950", "gfx1200")
AMD_WAVES_OF_32 = ("gfx1100", "gfx1200")
GENERATORS: dict[str, tuple[type[Any], int, int]] = {  # with how many kernels and statements
    "plain": (Programs, 2, 5),
    "layouts": (LayoutPrograms, 1, 5),
    "operators": (OperatorPrograms, 1, 6),
    "lanes": (LanePrograms, 1, 8),
    "gemms": (GemmPrograms, 1, 1),
    "warp_specialized": (WarpSpecializedPrograms, 1, 1),
    "gemm_loops": (GemmLoopPrograms, 1, 1),
}
EXECUTORS = ("cpu", "simulator", "amd", "device")  # the second one simulates GPUs of NVIDIA, the third one those of AMD
NAMED_BARRIER = re.compile(r"T\.sync_threads\(\d")
AGREES, TOO_LARGE, TOO_LONG, DIFFERS = "agrees", "too large", "too long", "differs"


@dataclass(frozen=True)
class Limits:
    """Seconds of a processor that a program may take.

    Attributes:
        reference: On the reference interpreter; longer programs are counted as too long, and run nowhere else.
        executor: On any other executor, beyond which it counts as a difference.
    """

    reference: float
    executor: float


@dataclass(frozen=True)
class Result:
    """What came of one program on one executor; without an executor of the reference interpreter or the generator.

    Attributes:
        seconds: Of processors: this process's and those of the compilers that it started.
    """

    generator: str
    executor: str
    seed: int
    outcome: str
    message: str = ""
    seconds: float = 0.0


def draw(generator: str, seed: int) -> Program:
    """The program of a seed."""
    kind, kernels, statements = GENERATORS[generator]
    program: Program = kind(Seeded(seed), seed).program(kernels, statements)
    return program


def is_for_hopper(generator: str) -> bool:
    """Whether a generator's programs are made for TMA and wgmma."""
    return generator in ("gemms", "warp_specialized", "gemm_loops")


@functools.lru_cache(maxsize=1)
def quick_flags() -> str:
    """Flags by which a compiler builds a small kernel in less time.

    libstdc++ reads its special functions for every <cmath>, which takes longer than all the rest; of the linkers, gold
    needs half the time, if it finds the compiler's libraries.
    """
    linker = "-fuse-ld=gold"
    links = toolchain._try(toolchain.find_compiler().command, (linker,)) is None
    return f"-D_GLIBCXX_BITS_SPECFUN_H{f' {linker}' if links else ''}"


def runner(generator: str, executor: str, seed: int) -> Runner:
    """What runs the program of a seed."""
    if executor == "amd":
        architectures = AMD_WAVES_OF_32 if generator == "lanes" else AMD_ARCHITECTURES
        return on_simulator(architectures[seed % len(architectures)], seed % 2 == 0, seed)
    options = schedule_overrides(Seeded(seed)) if is_for_hopper(generator) else {}
    if executor == "device":
        return on_device(**options)
    if executor == "simulator":
        arch = "sm_90a" if is_for_hopper(generator) else ARCHITECTURES[seed % len(ARCHITECTURES)]
        arch = present_arch() or arch  # the very program that a GPU at hand runs
        return on_simulator(arch, seed % 2 == 0, seed, **options)
    return on_cpu(f"{'-O1' if seed % 4 == 0 else '-O0'} {quick_flags()}")


def check(generator: str, seed: int, executors: Sequence[str], limits: Limits) -> Iterator[Result]:
    """Runs the program of a seed everywhere."""
    since = _spent()
    try:
        with _limit(limits.executor):
            program = draw(generator, seed)
            func = load(program.text)
    except Exception as error:
        yield Result(generator, "reference", seed, DIFFERS, _described(error))
        return
    try:
        with _limit(limits.reference), contextlib.nullcontext() if seed % 16 else one_by_one():
            expected = by_reference(program, func)
    except TimeoutError:
        yield Result(generator, "reference", seed, TOO_LONG, "", _spent() - since)
        return
    except Exception as error:
        yield Result(generator, "reference", seed, DIFFERS, _described(error))
        return
    yield Result(generator, "reference", seed, AGREES, "", _spent() - since)
    with contextlib.ExitStack() as stack:
        if is_for_hopper(generator):
            stack.enter_context(few_multiprocessors())
        if seed % 8:
            stack.enter_context(compiled_once(func, program.arguments))
        if seed % 4:  # the others have machine code as users have it
            stack.enter_context(lightly_optimized())
        for executor in executors:
            if program.expected is not None and executor == "cpu":  # where a block has one thread
                continue
            if executor == "amd" and NAMED_BARRIER.search(program.text):  # which no GPU of AMD has
                continue
            yield _outcome(generator, seed, executor, program, func, expected, limits.executor)


def _outcome(
    generator: str, seed: int, executor: str, program: Program, func: PrimFunc, expected: list[Any], limit: float
) -> Result:
    """What comes of a program on one executor."""
    since, outcome, message = _spent(), AGREES, ""
    try:
        with _limit(limit):
            compare_with(expected, program, func, runner(generator, executor, seed))
    except ResourceError:
        outcome = TOO_LARGE
    except Exception as error:
        outcome, message = DIFFERS, _described(error)
    return Result(generator, executor, seed, outcome, message, _spent() - since)


def _spent() -> float:
    return sum(os.times()[:4])


def _described(error: Exception) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return " | ".join([type(error).__name__, *lines[:5]])[:600]


@contextlib.contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raises TimeoutError after so much time of a processor: others may use this machine, too."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"took more than {seconds} s")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
