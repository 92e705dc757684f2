"""Races kernels of `examples/` against published TileLang, each package in a process of its own.

Both are called `tilelang`. Run as `python benchmarks/published.py SITE [row ...] [--rounds N] [--out FILE]`, where
`pip install --target SITE tilelang==0.1.15` filled the folder SITE; it needs nvcc and a GPU. Each side compiles a row
with every tile of its list, checks the results, and keeps the fastest, as a tuner would; then the two take turns on
random data, with nothing in L2, and the table shows medians of device time.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import types
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cpu_kernels import example
from published_rows import FAST, ROWS
from timing import FLUSH_BYTES, device_ms

ROOT = Path(__file__).resolve().parent.parent


def compiled(side: str, row, tile):
    """A kernel of the example's program."""
    import tilelang

    if side == "published":  # which has no helpers for arrays, and examples import them
        helpers = types.ModuleType("tilelang.testing")
        helpers.to_device = helpers.to_host = None
        sys.modules["tilelang.testing"] = tilelang.testing = helpers
    module = example(row.example)
    program = getattr(module, row.function).get_tir(*row.arguments, **tile)
    return module, tilelang.compile(program, out_idx=row.out_idx, target="cuda", pass_configs=FAST)


def check(row, module, arguments, out) -> None:
    """Raises AssertionError if the result differs from the example's reference."""
    out = out[0] if isinstance(out, (list, tuple)) else out
    some, part = row.part(arguments, out)
    expected = module.reference(*(x.cpu().numpy() if hasattr(x, "cpu") else x for x in some), **row.reference)
    expected = expected[0] if isinstance(expected, tuple) else expected
    error = abs(part.float().cpu().numpy() - expected).max() / abs(expected).max()
    assert error < 2e-2, f"{row.name}: differs by {error:.4f} of the largest value"


def serve(side: str, name: str) -> None:
    """One side of a row: compiles it, and says so; then it answers each line of input.

    To "choose" it says which tile is the fastest, to a number the median milliseconds of so many calls.
    """
    import torch

    row = next(row for row in ROWS if row.name == name)
    kernels, failed = [], []

    def try_tile(tile, action) -> None:
        try:
            action()
        except Exception as error:
            failed.append(f"{tile}: {type(error).__name__}: {error}"[:300])

    for tile in row.tiles:
        try_tile(tile, lambda t=tile: kernels.append((t, *compiled(side, row, t))))
    print("@@" + json.dumps(len(kernels)), flush=True)

    sys.stdin.readline()  # "choose": the GPU is free
    torch.manual_seed(0)
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    arguments = row.tensors(torch)

    def milliseconds(kernel, repeats: int) -> float:
        for _ in range(3):
            kernel(*arguments)
        return device_ms(torch, flush, lambda: kernel(*arguments), repeats)

    found = []
    for tile, module, kernel in kernels:

        def measure(tile=tile, module=module, kernel=kernel) -> None:
            check(row, module, arguments, kernel(*arguments))
            found.append((milliseconds(kernel, 5), str(tile), kernel))

        try_tile(tile, measure)
    if not found:
        print("@@" + json.dumps({"error": failed}), flush=True)
        return
    _, tile, kernel = min(found, key=lambda each: each[0])
    print("@@" + json.dumps({"tile": tile, "failed": failed}), flush=True)
    for line in sys.stdin:
        print("@@" + json.dumps(milliseconds(kernel, int(line))), flush=True)


class Side:
    """The process of one side of a row."""

    def __init__(self, side: str, folder: str, name: str) -> None:
        environment = {**os.environ, "PYTHONPATH": folder, "TILELANG_PRINT_ON_COMPILATION": "0"}
        command = [sys.executable, __file__, "--serve", side, name]
        self.process = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip

    def answer(self):
        """The next answer; an error where the process has ended."""
        for line in self.process.stdout:
            if line.startswith("@@"):
                return json.loads(line[2:])
        return {"error": [f"the process ended with status {self.process.wait()}"]}

    def ask(self, question: object):
        """The answer to a line of input."""
        print(question, file=self.process.stdin, flush=True)
        return self.answer()


def race(row, sides, args) -> dict[str, object]:
    """The row of the table, of two sides that are ready."""
    for process in sides.values():
        process.answer()  # compiled
    ready = {side: process.ask("choose") for side, process in sides.items()}
    result = {"name": row.name, **ready, "asked": row.asked}
    if not any("error" in answer for answer in ready.values()):
        samples = {side: [] for side in sides}
        for _ in range(args.rounds):
            for side, process in sides.items():
                samples[side].append(process.ask(args.repeats))
        ours, published = (statistics.median(samples[side]) for side in ("ours", "published"))
        result |= {"ours_ms": ours, "published_ms": published, "ratio": published / ours, "samples": samples}
        unit, scale = ("GB/s", 1e-6) if row.in_bytes else ("TFLOP/s", 1e-9)
        figure = f"{row.flop / ours * scale:.0f} {unit}"
        times = f"{ours:10.4f}{published:10.4f} ms{figure:>14}{published / ours:8.3f} of {row.asked}"
        print(f"{row.name:<48}{times}", flush=True)
    else:
        errors = {side: answer["error"] for side, answer in ready.items() if "error" in answer}
        print(f"{row.name:<48}{errors}", flush=True)
    for process in sides.values():
        process.process.kill()
    return result


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", help="the folder of published TileLang")
    parser.add_argument("rows", nargs="*", help="parts of names of rows")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--ahead", type=int, default=4, help="rows that compile while others are measured")
    parser.add_argument("--out", default="", help="write the results here and not under results/")
    args = parser.parse_args()
    import torch

    device = torch.cuda.get_device_name()
    folders = {"ours": str(ROOT / "src"), "published": args.site}
    wanted = [row for row in ROWS if not args.rows or any(part in row.name for part in args.rows)]
    name = f"published-examples-{device.lower().replace(' ', '-')}.json"
    path = Path(args.out) if args.out else ROOT / "benchmarks" / "results" / name
    start, results, running = time.perf_counter(), [], []
    while wanted or running:
        while wanted and len(running) < args.ahead:
            row = wanted.pop(0)
            running.append((row, {side: Side(side, folder, row.name) for side, folder in folders.items()}))
        results.append(race(*running.pop(0), args))
        record = {
            "device": device, "torch": torch.__version__, "published": "0.1.15", "date": time.strftime("%Y-%m-%d"),
            "rounds": args.rounds, "repeats": args.repeats, "rows": results,
        }  # fmt: skip
        path.write_text(json.dumps(record, indent=2) + "\n")
    print(f"kept in {path}; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
