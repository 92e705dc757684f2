"""Runs random programs with fresh seeds for some time, and counts what agrees with the reference interpreter.

`python tests/random_kernels/fuzz.py --seconds 60` draws programs of every generator, runs each on the reference
interpreter, the CPU, simulated GPUs of NVIDIA and AMD and, where there is one, the GPU, and prints how many ran and
every difference with the seed that makes it again: `--seeds 123 --generator layouts --show` prints that program and
runs it alone.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "support"))

from random_kernels.outcomes import DIFFERS, EXECUTORS, GENERATORS, Limits, Result, check, draw

from tilelang.testing import _capability

LIMITS = Limits(reference=0.6, executor=60.0)
# no program comes twice; threads that wait for work keep processors from the other processes
ENVIRONMENT = {
    "TILELANG_DISABLE_CACHE": "1",
    "TILELANG_CHECK": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "4",
    "OMP_WAIT_POLICY": "passive",
}
ENDLESS = 90.0  # seconds after which a program that still runs, such as a kernel in a deadlock, is ended and reported
PATIENCE = 5  # seconds until programs that have begun when the time is over are given up, and not counted


def work(first: int, step: int, end: float, generators: Sequence[str], executors: Sequence[str], results: Any) -> None:
    """What one process does: seeds `first`, `first + step`, ... of each generator in turn until it is `end`."""
    warnings.simplefilter("ignore")
    gc.freeze()  # the modules
    gc.disable()  # programs are trees: a search for cycles walks them and finds next to nothing
    seed = first
    while time.time() < end:
        if seed // step % 8 == 0:
            gc.collect()
        for generator in generators:
            if time.time() >= end:
                break
            results.put(("begins", generator, seed))
            for result in check(generator, seed, executors, LIMITS):
                results.put(result)
                if result.executor == "device" and result.outcome == DIFFERS and not gpu_works():
                    results.put(("ends", generator, seed))  # what a kernel broke this process cannot use again
                    results.close()
                    results.join_thread()
                    os._exit(1)
        seed += step


def gpu_works() -> bool:
    """Whether this process can use its GPU, which it no longer can after a kernel that failed."""
    import torch  # where there is a GPU, there is torch

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def run(options: argparse.Namespace) -> list[Result]:
    """All results of as many processes as are asked for."""
    context = multiprocessing.get_context("forkserver")  # whose modules are imported once for all processes
    context.set_forkserver_preload(["random_kernels.outcomes", "tilelang.targets.nvidia.backend", "tilelang.targets.cpu.backend", "torch"])
    end, found = time.time() + options.seconds, []
    queues: list[Any] = [context.Queue() for _ in range(options.jobs)]
    places = [(options.start + n, "", True) for n in range(options.jobs)]
    begun = [time.time()] * options.jobs

    def start(n: int, seed: int) -> Any:
        arguments = (seed, options.jobs, end, options.generators, options.executors, queues[n])
        process = context.Process(target=work, args=arguments, daemon=True)
        process.start()
        return process

    processes = [start(n, places[n][0]) for n in range(options.jobs)]
    while any(process.is_alive() for process in processes) and time.time() < end + PATIENCE:
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
                    begun[n] = time.time()
            seed, generator, told = places[n]
            if alive and generator and time.time() - begun[n] > ENDLESS:
                processes[n].kill()
                processes[n].join()
                queues[n] = context.Queue()  # it may have held the lock of this one
                alive, told = False, True
                found.append(Result(generator, "process", seed, DIFFERS, "endless"))
                print(f"{generator} {seed}: has not ended in {ENDLESS:.0f} s", flush=True)
            if not alive and time.time() < end:
                if not told:
                    found.append(Result(generator, "process", seed, DIFFERS, "the process ended"))
                    print(f"{generator} {seed}: the process ended with {processes[n].exitcode}", flush=True)
                processes[n], begun[n] = start(n, seed + options.jobs), time.time()
    for process in processes:
        process.kill()
    return found


def table(results: Sequence[Result]) -> str:
    """How many programs of each generator had which outcome on each executor, and what one took on average."""
    groups = defaultdict(list)
    for result in results:
        groups[result.generator, result.executor, result.outcome].append(result.seconds)
    return "\n".join(
        f"{generator:16} {executor:10} {outcome:12} {len(seconds):7} {1000 * sum(seconds) / len(seconds):7.0f} ms"
        for (generator, executor, outcome), seconds in sorted(groups.items())
    )


def keep(results: Sequence[Result], path: Path) -> None:
    """Writes what differs, with the programs' texts, as lines of JSON."""
    with path.open("w") as file:
        for result in results:
            if result.outcome == DIFFERS:
                try:
                    text = draw(result.generator, result.seed).text
                except Exception as error:
                    text = f"cannot be drawn: {error}"
                file.write(json.dumps({**vars(result), "text": text}) + "\n")


def main() -> int:
    """Reads the options, runs, prints; 1 if anything differs."""
    warnings.simplefilter("ignore")
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--start", type=int, default=int(time.time()) * 1000, help="the first seed")
    parser.add_argument("--generator", dest="generators", choices=GENERATORS, action="append")
    parser.add_argument("--executor", dest="executors", choices=EXECUTORS, action="append")
    parser.add_argument("--seeds", type=int, nargs="+", help="only these, in this process")
    parser.add_argument("--keep", type=Path, help="a file for the programs that differ")
    parser.add_argument("--show", action="store_true", help="print the programs of --seeds")
    options = parser.parse_args()
    there = EXECUTORS if _capability() is not None else EXECUTORS[:-1]
    options.generators, options.executors = options.generators or list(GENERATORS), options.executors or list(there)
    if options.seeds:
        results = []
        for seed in options.seeds:
            for generator in options.generators:
                if options.show:
                    print(draw(generator, seed).text)
                for result in check(generator, seed, options.executors, Limits(600, 600)):
                    results.append(result)
                    print(*(part for part in (generator, seed, result.executor, result.outcome, result.message) if part != ""))
    else:
        print(f"seeds from {options.start} on, {options.jobs} processes, {options.seconds:g} s", flush=True)
        results = run(options)
    print(table(results))
    if options.keep:
        keep(results, options.keep)
    return int(any(result.outcome == DIFFERS for result in results))


if __name__ == "__main__":
    sys.exit(main())
