"""Draws random programs and checks them; reduces one that fails to the simplest with the same failure."""

import linecache
import zlib
from collections.abc import Callable
from typing import Any

from harness import assert_same
from random_kernels.choices import Choices, Recorded, Seeded, plainest
from random_kernels.gemm_programs import GemmPrograms
from random_kernels.lanes import LanePrograms
from random_kernels.programs import Program, Programs
from random_kernels.runners import Runner
from random_kernels.warp_specialized_programs import WarpSpecializedPrograms

from tilelang.ir.func import PrimFunc
from tilelang.sim.tile_interp import run_reference

SECONDS_TO_SHRINK = 60


def load(text: str) -> PrimFunc:
    """The prim_func that a module's text defines."""
    name = f"<random kernel {zlib.crc32(text.encode())}>"  # the same in every process
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, Any] = {}
    exec(compile(text, name, "exec"), scope)
    func: PrimFunc = scope["main"]
    return func


def by_reference(program: Program, func: PrimFunc) -> list[Any]:
    """The arguments of a program after the reference interpreter ran it, or what the program says they are."""
    if program.expected is not None:
        return program.expected
    expected = program.copies()
    run_reference(func, expected)
    return expected


def compare_with(expected: list[Any], program: Program, func: PrimFunc, runner: Runner) -> None:
    """Runs a program by a runner, and compares all tensors with those that are expected."""
    actual = runner(func, program.copies())
    for tolerance, want, got in zip(program.tolerances, expected, actual, strict=False):
        assert_same(want, got, rtol=tolerance, atol=tolerance * 1e-3)


def compare(program: Program, *runners: Runner) -> None:
    """Runs a program on the reference interpreter and by other runners, and compares all tensors."""
    func = load(program.text)
    expected = by_reference(program, func)
    for runner in runners:
        compare_with(expected, program, func, runner)


def check_random(
    seed: int,
    check: Callable[[Program], object],
    kernels: int = 2,
    statements: int = 5,
    kind_of_program: type[Programs] | type[LanePrograms] | type[GemmPrograms] | type[WarpSpecializedPrograms] = Programs,
) -> None:
    """Draws a program and checks it; reports the plainest one with the same kind of failure."""

    def draw(choices: Choices) -> Program:
        return kind_of_program(choices, seed).program(kernels, statements)

    def failure(choices: list[int]) -> type[Exception] | None:
        try:
            check(draw(Recorded(choices)))
        except Exception as error:
            return type(error)
        return None

    seeded = Seeded(seed)
    program = draw(seeded)
    try:
        check(program)
    except Exception as error:
        kind = type(error)
        fewer = plainest(seeded.made, lambda choices: failure(choices) is kind, SECONDS_TO_SHRINK)
        smallest = draw(Recorded(fewer))
        print(smallest.text)
        check(smallest)
        raise
