"""Random whole kernels: the CPU target computes what the reference interpreter computes.

Integers, truth values and floats within their contract agree exactly; transcendental functions within rounding. A
failure shows the plainest program that fails in the same way.
"""

import linecache

import pytest
from harness import assert_same
from random_kernels.choices import Recorded, Seeded, plainest
from random_kernels.programs import Programs

import tilelang
from tilelang.passes.thread import stream_stores
from tilelang.sim.tile_interp import run_reference

SECONDS_TO_SHRINK = 60


def load(text):
    """The prim_func that a module's text defines."""
    name = f"<random kernel {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {}
    exec(compile(text, name, "exec"), scope)
    return scope["main"]


def check(program, compile_flags):
    """Runs a program on both executors and compares all tensors."""
    func, expected, actual = load(program.text), program.copies(), program.copies()
    run_reference(func, expected)
    tilelang.compile(func, target="cpu", execution_backend="cc", compile_flags=compile_flags)(*actual)
    for tolerance, want, got in zip(program.tolerances, expected, actual, strict=False):
        assert_same(want, got, rtol=tolerance, atol=tolerance * 1e-3)


def check_random(seed, compile_flags, kernels=2, statements=5):
    """Draws a program and checks it; reports the plainest one with the same kind of failure."""

    def draw(choices):
        return Programs(choices, seed).program(kernels, statements)

    def failure(choices):
        try:
            check(draw(Recorded(choices)), compile_flags)
        except Exception as error:
            return type(error)
        return None

    seeded = Seeded(seed)
    program = draw(seeded)
    try:
        check(program, compile_flags)
    except Exception as error:
        kind = type(error)
        fewer = plainest(seeded.made, lambda choices: failure(choices) is kind, SECONDS_TO_SHRINK)
        smallest = draw(Recorded(fewer))
        print(smallest.text)
        check(smallest, compile_flags)
        raise


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(120))
def test_small_kernels_agree_with_the_reference(seed):
    check_random(seed, "-O1")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1060))
def test_optimized_kernels_agree_with_the_reference(seed):
    check_random(seed, None)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2000, 2020))
def test_kernels_that_stream_their_results_agree_with_the_reference(seed, monkeypatch):
    monkeypatch.setattr(stream_stores, "LARGE_BYTES", 64)
    check_random(seed, None)
