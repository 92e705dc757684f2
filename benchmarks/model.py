"""Compares the times that `kernel.predict()` gives with measured ones, over the kernels of `model_kernels.py`.

`python benchmarks/model.py measure` needs the device: kernels run in rounds in random order, each call with a cold L2,
and the raw times are kept under `results/`. Without the word, kernels are predicted, which needs no device, and
compared with the times kept: predicted and measured medians, the error, and per family the correlation of ranks.
"""

import argparse
import functools
import json
import multiprocessing
import os
import random
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import model_kernels
from timing import FLUSH_BYTES, device_ms

RESULTS = Path(__file__).resolve().parent / "results"
CALLS = 3  # of a kernel in each round


def _compile(number: int) -> str:
    try:
        model_kernels.cases()[number].make()
    except Exception as error:  # reported; the other kernels are still worth their time
        return f"{type(error).__name__}: {error}"
    return ""


def compiled(cases, workers: int) -> dict:
    """The kernels that compile, made by several processes first, which leave them in the compile cache."""
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, mp_context=fork) as pool:
        failures = list(pool.map(_compile, range(len(cases))))
    for case, failure in zip(cases, failures, strict=True):
        if failure:
            print(f"{case.family}, {case.name}: {failure}")
    return {case: case.make() for case, failure in zip(cases, failures, strict=True) if not failure}


# -- measuring ---------------------------------------------------------------------------------------------------
class Arrays:
    """Tensors by shape and dtype, which kernels share."""

    def __init__(self, torch) -> None:
        self._torch, self._made = torch, {}

    def of(self, kernel) -> list:
        """The arguments of a kernel, without the results that a call allocates: such calls are the fastest."""
        seen, arrays = {}, []
        for param in [kernel.params[place] for place in kernel.signature.inputs]:
            key = (tuple(param.shape), str(param.dtype))
            seen[key] = seen.get(key, 0) + 1
            arrays.append(self._array(*key, seen[key]))
        return arrays

    def _array(self, shape, dtype, number):
        key = (shape, dtype, number)
        if key not in self._made:
            torch, of = self._torch, getattr(self._torch, dtype)
            if of.is_floating_point:
                self._made[key] = torch.randn(shape, device="cuda").to(of)
            else:
                self._made[key] = torch.randint(0, 100, shape, device="cuda").to(of)
        return self._made[key]


def measure(kernels: dict, rounds: int) -> dict:
    """Microseconds of each kernel, a list of one median per round."""
    import torch

    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    arrays = Arrays(torch)
    arguments = {case: arrays.of(kernel) for case, kernel in kernels.items()}
    samples = {case: [] for case in kernels}
    for case, kernel in kernels.items():
        kernel(*arguments[case])
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            raise SystemExit(f"{case.family}, {case.name}: {error}") from None
    for _ in range(rounds):
        for case in random.sample(list(kernels), len(kernels)):
            call = functools.partial(kernels[case], *arguments[case])
            call()
            samples[case].append(round(device_ms(torch, flush, call, CALLS) * 1e3, 3))
    return samples


def measured(cases, args) -> None:
    """Measures, and keeps the raw times."""
    kernels = compiled(cases, args.workers)
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device answers: `measure` needs one")
    torch.manual_seed(0)
    samples = measure(kernels, args.rounds)
    device = torch.cuda.get_device_name()
    figures = "clocks.max.sm,clocks.sm,clocks.max.mem,power.limit"
    state = subprocess.run(["nvidia-smi", f"--query-gpu={figures}", "--format=csv,noheader"], capture_output=True,
                           text=True, check=False).stdout.strip()  # fmt: skip
    record = {
        "device": device, "torch": torch.__version__, "cuda": torch.version.cuda, "date": time.strftime("%Y-%m-%d"),
        "rounds": args.rounds, "calls": CALLS, figures: state, "unit": "us",
        "rows": [
            {
                "family": case.family, "name": case.name, "samples": samples[case],
                "registers": [used.n_regs for used in kernels[case].resource_usage.values()],
            }
            for case in kernels
        ],
    }  # fmt: skip
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    path = Path(args.times) if args.times else RESULTS / f"model-{slug}.json"
    path.write_text(as_text(record))
    print(f"kept in {path}")


def as_text(record: dict) -> str:
    """JSON with a line for each kernel."""
    head = [f"{json.dumps(key)}: {json.dumps(value)}," for key, value in record.items() if key != "rows"]
    rows = ",\n".join(map(json.dumps, record["rows"]))
    return "\n".join(["{", *head, '"rows": [', rows, "]}", ""])


# -- comparing ---------------------------------------------------------------------------------------------------
def rank_correlation(first: list[float], second: list[float]) -> float:
    """Spearman's coefficient."""
    ranks = [[sorted(values).index(value) for value in values] for values in (first, second)]
    return statistics.correlation(*ranks) if len(first) > 1 and len(set(first)) > 1 < len(set(second)) else 1.0


def compared(cases, args) -> None:
    """A table of predicted and measured times."""
    path = Path(args.times) if args.times else RESULTS / "model-nvidia-h200.json"
    rows = json.loads(path.read_text())["rows"]
    times = {(row["family"], row["name"]): statistics.median(row["samples"]) for row in rows}
    families: dict[str, list[tuple[float, float]]] = {}
    print(f"{'family':<34}{'kernel':<72}{'predicted':>11}{'measured':>11}{'error':>8}  bound by")
    for case in cases:
        if (case.family, case.name) not in times:
            continue
        prediction = case.make().predict()
        mine, theirs = prediction.seconds * 1e6, times[case.family, case.name]
        families.setdefault(case.family, []).append((mine, theirs))
        error = mine / theirs - 1
        print(f"{case.family:<34}{case.name:<72}{mine:9.1f}us{theirs:9.1f}us{error:8.0%}  {prediction.bound}")
    everything = [pair for pairs in families.values() for pair in pairs]
    print(f"\n{'family':<34}{'kernels':>8}{'mean error':>12}{'ranks':>8}")
    for family, pairs in [*families.items(), ("all", everything)]:
        error = statistics.mean(abs(mine / theirs - 1) for mine, theirs in pairs)
        print(f"{family:<34}{len(pairs):>8}{error:12.1%}{rank_correlation(*map(list, zip(*pairs, strict=True))):8.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("measure", "compare"), default="compare")
    parser.add_argument("--family", default="", help="only those that begin so")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--times", default="", help="the file of measured times, instead of the one under results/")
    args = parser.parse_args()
    cases = [case for case in model_kernels.cases() if case.family.startswith(args.family)]
    (measured if args.what == "measure" else compared)(cases, args)


if __name__ == "__main__":
    main()
