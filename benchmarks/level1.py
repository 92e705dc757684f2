"""Measures Level 1 on a GPU: functions marked `@tilelang.compute` against what a user would otherwise call.

Matrix products against cuBLAS, attention against FlexAttention, cuDNN and the fastest tiles of a kernel that is written
by hand, layers against torch.compile; nothing of ours is tuned. Some matrix products are also compared with the fastest
of all programs that the tuner would consider: the one that is taken without measuring, and the fastest of the first
five.
torch.compile runs with `max-autotune-no-cudagraphs`: graphs would save launches, which do not count here, since the
table shows medians of device time. FlexAttention runs with its own choice of tiles for the machine. Worker processes
compile their rows side by side; when all have done so, one row after the other is measured, by the process that
compiled it: its sides take turns in random order on random data. What fails is a row without times.

Run as `python benchmarks/level1.py [group | group/row ...] [--rounds N] [--workers N] [--seconds N]`; results are kept
under `results/`.
"""

import argparse
import json
import os
import platform
import re
import statistics
import sys
import time
from compileall import compile_dir
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from gpu import RESULTS, Bench
from level1_lines import counted
from level1_rows import FIRST, FIVE, GROUPS, close

FEW = 5  # programs that a short search measures


@dataclass
class Measured:
    """A row: times in milliseconds, and the rival's over ours; those that failed have an error instead.

    `first_s` are the seconds of our first call, which compiles, while other rows do the same.
    """

    group: str
    name: str
    rival: str
    ours: float | None = None
    theirs: float | None = None
    ratio: float | None = None
    error: str = ""
    first_s: float | None = None


class Worker:
    """A process that compiles some rows, and measures them one at a time when it is told."""

    def __init__(self, rows: list[tuple[str, str]], args: argparse.Namespace) -> None:
        self.rows = rows
        context = get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, rows, args), daemon=True)
        self.process.start()

    def is_ready(self, seconds: float) -> bool:
        """Whether all rows are compiled after so many seconds at most."""
        return self.connection.poll(max(0.0, seconds)) and self.connection.recv() is None

    def measure(self, row: tuple[str, str]) -> list[Measured]:
        """The results of a row."""
        self.connection.send(self.rows.index(row))
        return self.connection.recv()


def _work(connection, rows: list[tuple[str, str]], args: argparse.Namespace) -> None:
    import torch

    torch.manual_seed(0)
    bench = Bench(torch, args)
    prepared = [_prepared(torch, *row, args.without) for row in rows]
    torch.cuda.synchronize()
    connection.send(None)
    while True:
        row = prepared[number := connection.recv()]
        found = list(row.failed)
        if row.candidates:
            found += _searched(*rows[number], bench.race(*row.candidates))
        if len(row.calls) > 1:
            mine, *others = bench.race(*(call for _, call in row.calls))
            fastest: dict[str, float] = {}
            for (rival, _), time in zip(row.calls[1:], others, strict=True):
                fastest[rival] = min(time, fastest.get(rival, time))
            found += [
                Measured(*rows[number], rival, mine, time, time / mine, first_s=row.first_s)
                for rival, time in fastest.items()
            ]
        connection.send(found)


def _searched(group: str, name: str, times: list[float]) -> list[Measured]:
    """The first of all programs, and the fastest of the first few, against the fastest one."""
    best, pairs = min(times), ((FIRST, times[0]), (FIVE, min(times[:FEW])))
    return [Measured(group, name, rival, mine, best, best / mine) for rival, mine in pairs]


@dataclass
class Prepared:
    """A row that is compiled: calls that give the right result, ours first; all programs of ours; what failed."""

    calls: list[tuple[str, Any]]
    candidates: list[Any]
    failed: list[Measured]
    first_s: float = 0.0


def _prepared(torch, group: str, name: str, without: list[str]) -> Prepared:
    case = next(each for each in GROUPS[group].cases if each.name == name)
    try:
        sides = case.sides(torch)
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = sides.ours()
        torch.cuda.synchronize()
        first = time.perf_counter() - start
    except Exception as error:
        return Prepared([], [], [Measured(group, name, "", error=_shown(error))])
    calls, failed = [("", sides.ours)], []
    for rival, given in sides.rivals.items():
        for call in given if isinstance(given, list) else [given]:
            if rival in without:
                continue
            try:
                close(torch, result, call(), case.tolerance)
                calls.append((rival, call))
            except Exception as error:
                failed.append(Measured(group, name, rival, error=_shown(error)))
    return Prepared(calls, sides.candidates, failed, first)


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:400]


def _show(row: Measured) -> None:
    if row.error:
        print(f"{row.group:<10}{row.name:<44}{row.rival:<15}{row.error.splitlines()[0]}", flush=True)
    else:
        figures = f"{row.ours:10.4f}{row.theirs:10.4f}{row.ratio:8.3f}"
        print(f"{row.group:<10}{row.name:<44}{row.rival:<15}{figures}", flush=True)


def summaries(rows: list[Measured]) -> list[dict[str, object]]:
    """For each group and rival, the geometric mean of ratios, the least, and the goals."""
    found = []
    for group, about in GROUPS.items():
        for rival, goal in about.goals.items():
            ratios = [row.ratio for row in rows if row.group == group and row.rival == rival and row.ratio]
            failed = sum(1 for row in rows if row.group == group and row.rival in (rival, "") and row.error)
            if ratios or failed:
                mean = statistics.geometric_mean(ratios) if ratios else None
                found.append({
                    "group": group, "rival": rival, "rows": len(ratios), "failed": failed, "geomean": mean,
                    "goal": goal.geomean, "least": min(ratios, default=None), "least_goal": goal.least,
                })  # fmt: skip
    return found


def _prepare_processes() -> None:
    """Lets first calls of processes compile kernels, but not this package to bytecode, as if it were installed."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "2"
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    package = find_spec("tilelang")
    for folder in package.submodule_search_locations or [] if package else []:
        compile_dir(folder, quiet=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help=f"any of {', '.join(GROUPS)}, or layers/RoPE for some rows of a group")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--compile-seconds", type=float, default=600.0, help="rows that take longer are left out")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="leave out rows that begin later")
    parser.add_argument("--without", nargs="*", default=[], help="rivals that are left out")
    parser.add_argument("--update", action="store_true", help="keep rows of earlier results that are not measured")
    parser.add_argument("--out", default="", help="write the results here and not under results/")
    args = parser.parse_args()
    wanted = [text.partition("/")[::2] for text in args.rows or GROUPS]
    unknown = [group for group, _ in wanted if group not in GROUPS]
    if unknown:
        parser.error(f"unknown group {unknown[0]!r}; the groups are {', '.join(GROUPS)}")
    start = time.perf_counter()
    rows = [(group, case.name) for group, part in wanted for case in GROUPS[group].cases if part in case.name]
    _prepare_processes()
    count = min(args.workers, len(rows))
    workers = [Worker(rows[number::count], args) for number in range(count)]
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device answers: this benchmark measures one")
    device = torch.cuda.get_device_name()
    limit = start + args.compile_seconds
    ready = [worker for worker in workers if worker.is_ready(limit - time.perf_counter())]
    for worker in workers:
        if worker not in ready:
            worker.process.kill()
            worker.process.join()  # what the driver frees would delay what is measured
    print(f"compiled in {time.perf_counter() - start:.0f} s", flush=True)
    measured: list[Measured] = []
    for row in rows:
        worker = next((each for each in ready if row in each.rows), None)
        if worker is None:
            found = [Measured(*row, "", error="was not compiled in time")]
        elif time.perf_counter() - start > args.seconds:
            found = [Measured(*row, "", error="no time was left")]
        else:
            found = worker.measure(row)
        for each in found:
            _show(each)
        measured += found
    for worker in ready:
        worker.process.kill()
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    path = Path(args.out) if args.out else RESULTS / f"level1-{slug}.json"
    if args.update and path.exists():
        new = {(row.group, row.name, row.rival) for row in measured if not row.error}
        earlier = [Measured(**row) for row in json.loads(path.read_text())["rows"]]
        known = {(row.group, row.name) for row in earlier if not row.error}
        kept = [row for row in earlier if (row.group, row.name, row.rival) not in new]
        measured = kept + [row for row in measured if not row.error or (row.group, row.name) not in known]
    found = summaries(measured)
    for each in found:
        mean, least = each["geomean"] or 0.0, each["least"] or 0.0
        print(f"{each['group']:<10}{each['rival']:<15}{each['rows']:4} rows, {each['failed']} failed, "
              f"geomean {mean:.3f} of {each['goal']}, least {least:.3f} of {each['least_goal']}")
    firsts = sorted({(row.group, row.name): row.first_s for row in measured if row.first_s}.values())
    if firsts:
        print(f"first calls: median {statistics.median(firsts):.2f} s, longest {firsts[-1]:.2f} s")
    path.parent.mkdir(exist_ok=True, parents=True)
    record = {
        "device": device, "torch": torch.__version__, "cuda": torch.version.cuda, "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"), "rounds": args.rounds, "repeats": args.repeats,
        "summary": found, "rows": [asdict(row) for row in measured], "lines": counted(),
    }  # fmt: skip
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(f"kept in {path}; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
