"""Runs random programs with fresh seeds for some time, and counts what agrees with the reference interpreter.

`python tests/random_kernels/fuzz.py --seconds 60` draws programs of every generator, runs each on the reference
interpreter, the CPU, a simulated GPU and, where there is one, the GPU, and prints how many ran and every difference
with the seed that makes it again: `--seeds 123 --generator spread --show` prints that program and runs it alone.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "support"))

from random_kernels.checking import by_reference, compare_with, load
from random_kernels.choices import Seeded
from random_kernels.products import ProductPrograms
from random_kernels.programs import Program, Programs
from random_kernels.role_programs import RolePrograms, wishes
from random_kernels.spread import SpreadPrograms
from random_kernels.ways import Way, can_be_moved, few_groups, on_cpu, on_device, on_simulator

from tilelang.errors import ResourceError
from tilelang.testing import _capability

ARCHITECTURES = ("sm_80", "sm_75", "sm_90a")
GENERATORS: dict[str, tuple[type[Any], int, int]] = {  # with how many kernels and statements
    "plain": (Programs, 2, 5),
    "spread": (SpreadPrograms, 1, 5),
    "products": (ProductPrograms, 1, 1),
    "roles": (RolePrograms, 1, 1),
}
EXECUTORS = ("cpu", "simulator", "device")
AGREES, TOO_LARGE, NO_DTYPE, DIFFERS = "agrees", "too large", "no such dtype in torch", "differs"


@dataclass(frozen=True)
class Result:
    """What came of one program on one executor; without an executor of the reference interpreter or the generator."""

    generator: str
    executor: str
    seed: int
    outcome: str
    message: str = ""


def draw(generator: str, seed: int) -> Program:
    """The program of a seed."""
    kind, kernels, statements = GENERATORS[generator]
    program: Program = kind(Seeded(seed), seed).program(kernels, statements)
    return program


def way(generator: str, executor: str, seed: int) -> Way:
    """How a program of a seed is run."""
    hopper = generator in ("products", "roles")
    options = wishes(Seeded(seed)) if hopper else {}
    if executor == "device":
        return on_device(**options)
    if executor == "simulator":
        arch = "sm_90a" if hopper else ARCHITECTURES[seed % len(ARCHITECTURES)]
        return on_simulator(arch, seed % 2 == 0, seed, **options)
    return on_cpu("-O1")


def check(generator: str, seed: int, executors: Sequence[str], limit: int) -> Iterator[Result]:
    """Runs the program of a seed everywhere."""
    try:
        with _time_limit(limit):
            program = draw(generator, seed)
            func = load(program.text)
            expected = by_reference(program, func)
    except Exception as error:
        yield Result(generator, "reference", seed, DIFFERS, _described(error))
        return
    yield Result(generator, "reference", seed, AGREES)
    for executor in executors:
        if executor == "device" and not can_be_moved(program):
            yield Result(generator, executor, seed, NO_DTYPE)
            continue
        try:
            with _time_limit(limit), few_groups() if generator in ("products", "roles") else contextlib.nullcontext():
                compare_with(expected, program, func, way(generator, executor, seed))
        except ResourceError:
            yield Result(generator, executor, seed, TOO_LARGE)
        except Exception as error:
            yield Result(generator, executor, seed, DIFFERS, _described(error))
        else:
            yield Result(generator, executor, seed, AGREES)


def _described(error: Exception) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return " | ".join([type(error).__name__, *lines[:5]])[:600]


@contextlib.contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"took more than {seconds} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def work(first: int, step: int, end: float, generators: Sequence[str], executors: Sequence[str], results: Any) -> None:
    """What one process does: seeds `first`, `first + step`, ... of each generator in turn until it is `end`."""
    warnings.simplefilter("ignore")
    seed = first
    while time.time() < end:
        for generator in generators:
            if time.time() >= end:
                break
            results.put(("begins", generator, seed))
            for result in check(generator, seed, executors, 60):
                results.put(result)
                if result.executor == "device" and result.outcome == DIFFERS and "Driver" in result.message:
                    results.put(("ends", generator, seed))  # what a kernel broke this process cannot use again
                    results.close()
                    results.join_thread()
                    os._exit(1)
        seed += step


def run(options: argparse.Namespace) -> list[Result]:
    """All results of as many processes as are asked for."""
    context = multiprocessing.get_context("spawn")
    end, found = time.time() + options.seconds, []
    queues: list[Any] = [context.Queue() for _ in range(options.jobs)]
    places = [(options.start + n, "", True) for n in range(options.jobs)]

    def start(n: int, seed: int) -> Any:
        arguments = (seed, options.jobs, end, options.generators, options.executors, queues[n])
        process = context.Process(target=work, args=arguments, daemon=True)
        process.start()
        return process

    processes = [start(n, places[n][0]) for n in range(options.jobs)]
    while any(process.is_alive() for process in processes) and time.time() < end + 120:
        time.sleep(0.2)
        for n in range(options.jobs):
            alive = processes[n].is_alive()
            while not queues[n].empty():
                got = queues[n].get()
                if isinstance(got, Result):
                    found.append(got)
                    if got.outcome == DIFFERS:
                        print(f"{got.generator} {got.seed} on {got.executor}: {got.message}", flush=True)
                else:
                    places[n] = (got[2], got[1], got[0] == "ends")
            if not alive and time.time() < end:
                seed, generator, told = places[n]
                if not told:
                    found.append(Result(generator, "process", seed, DIFFERS, "the process ended"))
                    print(f"{generator} {seed}: the process ended with {processes[n].exitcode}", flush=True)
                processes[n] = start(n, seed + options.jobs)
    for process in processes:
        process.kill()
    return found


def table(results: Sequence[Result]) -> str:
    """How many programs of each generator had which outcome on each executor."""
    counts = Counter((result.generator, result.executor, result.outcome) for result in results)
    return "\n".join(f"{generator:10} {executor:10} {outcome:24} {n:7}" for (generator, executor, outcome), n in sorted(counts.items()))


def main() -> int:
    """Reads the options, runs, prints; 1 if anything differs."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--start", type=int, default=int(time.time()) * 1000, help="the first seed")
    parser.add_argument("--generator", dest="generators", choices=GENERATORS, action="append")
    parser.add_argument("--executor", dest="executors", choices=EXECUTORS, action="append")
    parser.add_argument("--seeds", type=int, nargs="+", help="only these, in this process")
    parser.add_argument("--show", action="store_true", help="print the programs of --seeds")
    options = parser.parse_args()
    there = EXECUTORS if _capability() is not None else EXECUTORS[:2]
    options.generators, options.executors = options.generators or list(GENERATORS), options.executors or list(there)
    if options.seeds:
        results = []
        for seed in options.seeds:
            for generator in options.generators:
                if options.show:
                    print(draw(generator, seed).text)
                for result in check(generator, seed, options.executors, 600):
                    results.append(result)
                    print(*(part for part in (generator, seed, result.executor, result.outcome, result.message) if part != ""))
    else:
        print(f"seeds from {options.start} on, {options.jobs} processes, {options.seconds:g} s", flush=True)
        results = run(options)
    print(table(results))
    return int(any(result.outcome == DIFFERS for result in results))


if __name__ == "__main__":
    sys.exit(main())
