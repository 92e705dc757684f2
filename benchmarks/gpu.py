"""Measures a GPU: our kernels against what a user would otherwise call, cuBLAS and PyTorch's kernels.

Both sides run in one process, in interleaved rounds in random order on random data, each after a warm-up of its own;
the table shows medians of device time. Run as `python benchmarks/gpu.py [group ...] [--rounds N]`; results are kept
under `results/`.
"""

import argparse
import functools
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from gpu_attention import ATTENTION
from gpu_examples import EXAMPLES
from gpu_products import PRODUCTS, close
from timing import FLUSH_BYTES, device_ms

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass
class Row:
    """One line; `ratio` is the other side's time over ours, or the bound over the value."""

    group: str
    name: str
    ours: float
    theirs: float | None
    unit: str
    figure: str
    ratio: float
    target: float
    what: str

    @property
    def met(self) -> bool:
        """Whether the target is reached."""
        return self.ratio >= self.target


class Bench:
    """The rows so far, and how one is measured."""

    def __init__(self, torch, args) -> None:
        self.torch, self.args, self.rows = torch, args, []
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda") if torch.cuda.is_available() else None

    @functools.cached_property
    def copy_rate(self) -> float:
        """GB/s, read and written, at which the device copies a tensor of 2 GiB."""
        source = self.torch.randn(1 << 29, device="cuda")
        target = self.torch.empty_like(source)
        mine, = self.race(lambda: target.copy_(source))
        rate = 2 * source.nbytes / mine * 1e-6
        print(f"device copy: {rate:.0f} GB/s")
        return rate

    def device_ms(self, call, repeats: int) -> float:
        """The median device time of a call whose data is not in L2."""
        return device_ms(self.torch, self.flush, call, repeats)

    def race(self, *calls) -> list[float]:
        """Median milliseconds of each side, over rounds in which the sides take turns in random order."""
        samples = [[] for _ in calls]
        for _ in range(self.args.rounds):
            for side in random.sample(range(len(calls)), len(calls)):
                self.device_ms(calls[side], 3)  # its own clock, not its predecessor's
                samples[side].append(self.device_ms(calls[side], self.args.repeats))
        return [statistics.median(s) for s in samples]

    def compare(self, group, name, ours, theirs, work, unit, target) -> None:
        """A row whose target is a share of the other side's speed."""
        mine, other = self.race(ours, theirs)
        self.add(Row(group, name, mine, other, "ms", f"{work / mine * 1e-6:.0f} {unit}", other / mine, target, "rival"))

    def moved(self, group, name, ours, theirs, size_bytes, target) -> None:
        """A row whose target is a share of the measured copy rate."""
        mine, other = self.race(ours, theirs)
        rate = size_bytes / mine * 1e-6
        self.add(Row(group, name, mine, other, "ms", f"{rate:.0f} GB/s", rate / self.copy_rate, target, "copy rate"))

    def row(self, *fields) -> None:
        """A row by its fields."""
        self.add(Row(*fields))

    def add(self, row: Row) -> None:
        """Keeps a row and shows it."""
        self.rows.append(row)
        theirs = "" if row.theirs is None else f"{row.theirs:10.4f}"
        verdict = "yes" if row.met else "NO"
        print(f"{row.group:<10}{row.name:<34}{row.ours:10.4f}{theirs:>11} {row.unit:<4}{row.figure:>14}"
              f"{row.ratio:8.3f} of {row.what:<10} >= {row.target:<5g} {verdict}", flush=True)


def memory_rows(bench: Bench, kernels) -> None:
    torch = bench.torch
    functional = torch.nn.functional
    size = 1 << 28
    (a, b), (c, d) = torch.randn(2, size, device="cuda"), torch.empty(2, size, device="cuda")
    add = kernels.vector_add(size)
    add(a, b, c)
    close(c, a + b, 0, "vector add")
    bench.compare("memory", "vector add 2^28 float32", lambda: add(a, b, c), lambda: torch.add(a, b, out=d), 12 * size,
                  "GB/s", 0.98)

    for cols in (1024, 4096, 16384, 65536):
        rows = (1 << 28) // cols
        x = torch.randn(rows, cols, device="cuda")
        w, shift = torch.randn(cols, device="cuda"), torch.randn(cols, device="cuda")
        y = torch.full_like(x, float("nan"))
        pairs = {
            "softmax": (kernels.softmax(rows, cols), (x, y), lambda x=x: torch.softmax(x, -1)),
            "LayerNorm": (kernels.layer_norm(rows, cols), (x, w, shift, y),
                          lambda x=x, w=w, s=shift: functional.layer_norm(x, (x.shape[1],), w, s, 1e-5)),
            "RMSNorm": (kernels.rms_norm(rows, cols), (x, w, y),
                        lambda x=x, w=w: functional.rms_norm(x, (x.shape[1],), w, 1e-6)),
        }
        for name, (kernel, arrays, theirs) in pairs.items():
            y.fill_(float("nan"))
            kernel(*arrays)
            close(y, theirs(), 1e-4, name)
            label = f"{name} {rows}x{cols} float32"
            bench.moved("memory", label, lambda k=kernel, p=arrays: k(*p), theirs, 2 * x.nbytes, 0.90)

    n = 32768
    matrix, vector = torch.randn(n, n, device="cuda").half(), torch.randn(n, device="cuda").half()
    out = torch.empty(n, device="cuda").half()
    gemv = kernels.gemv(n, n)
    gemv(matrix, vector, out)
    close(out, matrix @ vector, 1e-2, "GEMV")
    bench.moved("memory", f"GEMV {n}x{n} float16", lambda: gemv(matrix, vector, out), lambda: matrix @ vector,
                matrix.nbytes, 0.90)

    n = 16384
    x, y = torch.randn(n, n, device="cuda"), torch.empty(n, n, device="cuda")
    turn = kernels.transpose(n, n)
    turn(x, y)
    close(y, x.T, 0, "transpose")
    label = f"transpose {n}x{n} float32"
    bench.moved("memory", label, lambda: turn(x, y), lambda: x.T.contiguous(), 2 * x.nbytes, 0.90)


def attention_rows(bench: Bench, kernels) -> None:
    torch = bench.torch
    functional = torch.nn.functional
    for what, pass_configs, tiles in (
        ("mma ", kernels.MMA, {"block_M": 128, "block_N": 64, "threads": 128, "num_stages": 2}),
        ("mma ", kernels.MMA, {"block_M": 128, "block_N": 128, "threads": 256, "num_stages": 2}),
        ("", None, {"block_M": 128, "block_N": 64, "threads": 256, "num_stages": 2}),
        ("", None, {"block_M": 128, "block_N": 128, "threads": 256, "num_stages": 2}),
    ):
        batch, heads, length, dim = 4, 32, 4096, 128
        q, k, v = torch.randn(3, batch, heads, length, dim, device="cuda").half()
        out = torch.full_like(q, float("nan"))
        kernel = kernels.attention(batch, heads, length, dim, pass_configs=pass_configs, **tiles)
        kernel(q, k, v, out)
        theirs = lambda q=q, k=k, v=v: functional.scaled_dot_product_attention(q, k, v)  # noqa: E731
        close(out, theirs(), 5e-3, "attention")
        mine, other = bench.race(lambda: kernel(q, k, v, out), theirs)
        work = 4 * batch * heads * length * length * dim
        rate = work / mine * 1e-9
        name = f"{what}{tiles['block_M']}x{tiles['block_N']} t{tiles['threads']} f16"
        bench.add(Row("attention", name, mine, other, "ms", f"{rate:.0f} TFLOP/s", rate / 300, 1.0, "300 TFLOP/s"))


_COMPILE = """
import os, sys, time
sys.path.insert(0, {folder!r})
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{cores}])
import tilelang, tilelang.language
import gpu_kernels
start = time.perf_counter()
{statement}
print((time.perf_counter() - start) * 1e3)
"""
_MANY = (
    "tilelang.par_compile([gpu_kernels.gemm_program(m * 128, 4096, 4096) for m in range(1, 9)], target='cuda', "
    "num_workers={workers})"
)


def compile_ms(statement: str, folder: str, cores: int = 1) -> float:
    """The time of a statement in a fresh process, after the imports; bytecode and kernels are kept in a folder."""
    script = _COMPILE.format(folder=str(Path(__file__).resolve().parent), statement=statement, cores=cores)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": f"{folder}/bytecode", "TILELANG_CACHE_DIR": f"{folder}/kernels"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(done.stdout)


def compile_rows(bench: Bench, kernels) -> None:
    """On one core. Cold: a fresh process and an empty cache; cached: a fresh process and a full one.

    Python's bytecode is there in both, as for a package that is installed.
    """
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory() as folder:

        def cold(statement: str, cores: int = 1) -> float:
            shutil.rmtree(f"{folder}/kernels", ignore_errors=True)
            return compile_ms(statement, folder, cores)

        for name, call, most in (
            ("tiled GEMM", "gpu_kernels.gemm(4096, 4096, 4096)", 500),
            ("FlashAttention", "gpu_kernels.attention(4, 32, 4096, 128)", 900),
        ):
            cold(call), compile_ms(call, folder)  # leaves the bytecode of all modules
            samples = [(cold(call), compile_ms(call, folder)) for _ in range(bench.args.rounds)]  # in this order
            for side, state, limit in ((0, "cold", most), (1, "cached", 30)):
                value = statistics.median(sample[side] for sample in samples)
                bench.add(Row("compile", f"{name}, {state}", value, None, "ms", "", limit / value, 1.0, f"{limit} ms"))
        one, two = (
            statistics.median(cold(_MANY.format(workers=count), count) for _ in range(max(1, bench.args.rounds // 2)))
            for count in (1, 2)
        )
        bench.add(Row("compile", "8 GEMMs, 2 processes against 1", two, one, "ms", "", one / two, 1.0, "one process"))


def launch_rows(bench: Bench, kernels) -> None:
    torch = bench.torch

    def host_us(call) -> float:
        start = time.perf_counter()
        for _ in range(200):  # fewer than the queue holds
            call()
        value = (time.perf_counter() - start) / 200 * 1e6
        torch.cuda.synchronize()
        return value

    for count, limit in ((3, 3.5), (19, 5.0)):
        kernel = kernels.tiny_add(count)
        arrays = [torch.ones(16, device="cuda") for _ in range(count)]
        out = torch.empty_like(arrays[0])
        calls = [lambda k=kernel, p=arrays: k(*p), lambda p=arrays, o=out: torch.add(p[0], p[1], out=o)]
        until = time.perf_counter() + 1.0
        while time.perf_counter() < until:  # the checker is compiled meanwhile, where no cache has it
            for call in calls:
                host_us(call)
        samples = [[host_us(call) for call in calls] for _ in range(30)]
        value, other = (statistics.median(one) for one in zip(*samples, strict=True))
        bench.add(Row("launch", f"{count} tensors, against torch.add", value, other, "us", "", limit / value, 1.0,
                      f"{limit} us"))


GROUPS = {
    "copy": memory_rows, **PRODUCTS, "attention": attention_rows, **ATTENTION, **EXAMPLES,
    "compile": compile_rows, "launch": launch_rows,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help=f"any of {', '.join(GROUPS)}; all without it")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", default="", help="write the results here and not under results/")
    args = parser.parse_args()
    unknown = [group for group in args.groups if group not in GROUPS]
    if unknown:
        parser.error(f"unknown group {unknown[0]!r}; the groups are {', '.join(GROUPS)}")
    import gpu_kernels
    import torch

    groups = args.groups or list(GROUPS)
    if torch.cuda.is_available():
        device = torch.cuda.get_device_name()
    elif groups == ["compile"]:  # all others run what they compile
        device = "no device"
    else:
        raise SystemExit("no CUDA device answers: this benchmark measures one; only `compile` needs none")
    torch.manual_seed(0)
    print(f"{device}, torch {torch.__version__}, {os.cpu_count()} cores\n")
    bench = Bench(torch, args)
    failures = {}
    for name in groups:
        try:
            GROUPS[name](bench, gpu_kernels)
        except Exception as error:  # the other groups are still worth their time on the device
            failures[name] = f"{type(error).__name__}: {error}"
            print(f"{name}: {failures[name]}", flush=True)
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    path = Path(args.out) if args.out else RESULTS / f"{slug}.json"
    path.parent.mkdir(exist_ok=True, parents=True)
    record = {
        "device": device, "torch": torch.__version__, "cuda": torch.version.cuda, "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"), "rounds": args.rounds, "repeats": args.repeats,
        "copy_rate_gb_s": vars(bench).get("copy_rate", 0.0), "failures": failures,
        "rows": [{**asdict(row), "met": row.met} for row in bench.rows],
    }
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(f"\nkept in {path}")


if __name__ == "__main__":
    main()
