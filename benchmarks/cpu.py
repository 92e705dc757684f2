"""Measures this machine: the kernels of the examples against what a user would otherwise call, PyTorch.

Both sides run in one process with the same number of threads, in interleaved rounds; the table shows medians, and as
ratio the median of those of neighboring rounds, which other work on the machine slows down alike.
Run as `python benchmarks/cpu.py [--threads N] [--rounds N] [--only TEXT] [--ordinary | --level1] [--shared]`; results
are kept under `results/`.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
COMPILED = ", torch.compile"  # in names of rows


@dataclass
class Row:
    """One line of the table; `ratio` is how many times faster than the other side, or below the limit."""

    name: str
    ours: float
    unit: str
    theirs: float | None
    figure: str
    ratio: float
    target: str
    met: bool


class Settings:
    """What the command line says of the machine.

    Attributes:
        shared: Other work runs on it, so that the time of this process counts, in all of its threads.
    """

    shared = False


def seconds_per_call(call: Callable[[], object], calls: int) -> float:
    clock = time.process_time if Settings.shared else time.perf_counter
    start = clock()
    for _ in range(calls):
        call()
    return (clock() - start) / calls


def calls_that_fill(call: Callable[[], object], seconds: float) -> int:
    call()
    return max(1, min(100_000, int(seconds / max(1e-9, seconds_per_call(call, 1)))))


def undisturbed(call: Callable[[], object]) -> float:
    """The seconds of a call of a few microseconds where nothing interrupts it: the least of many short rounds."""
    call()
    return min(seconds_per_call(call, 200) for _ in range(300))


def race(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int, seconds: float
) -> tuple[float, float, float]:
    """The median seconds per call of both sides over interleaved rounds, and the median ratio of theirs to ours."""
    sides = (ours, theirs)
    counts = [calls_that_fill(call, seconds) for call in sides]
    samples: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            sides[side]()
            samples[side].append(seconds_per_call(sides[side], counts[side]))
    ratio = statistics.median(other / mine for mine, other in zip(*samples, strict=True))
    return statistics.median(samples[0]), statistics.median(samples[1]), ratio


def compare(name, ours, theirs, work, unit, target, args) -> Row:
    """A row of the first table; `work` is done per call, in `unit` times 1e9."""
    mine, other, ratio = race(ours, theirs, args.rounds, args.seconds)
    figure = f"{work / mine * 1e-9:.1f} {unit}"
    return Row(name, mine * 1e3, "ms", other * 1e3, figure, ratio, f">= {target:g}x", ratio >= target)


def limit(name: str, value: float, unit: str, most: float) -> Row:
    return Row(name, value, unit, None, "", most / value, f"<= {most:g} {unit}", value <= most)


def check(result, expected, tolerance: float) -> None:
    """A fast wrong kernel is worth nothing."""
    error = (result.float() - expected.float()).abs().max().item()
    scale = expected.float().abs().max().item()
    if not error <= tolerance * scale:
        raise SystemExit(f"wrong result: difference {error:g} where values reach {scale:g}")


def gemm_rows(torch, kernels, args) -> dict[str, Callable[[], Row]]:
    def row(size: int, name: str, target: float) -> Row:
        dtype = getattr(torch, name)
        a, b = torch.randn(size, size).to(dtype), torch.randn(size, size).to(dtype)
        kernel = kernels.gemm(size, name)
        check(kernel(a, b), a.float() @ b.float(), 1e-2)
        work = 2 * size**3
        return compare(f"{name} GEMM {size}", lambda: kernel(a, b), lambda: a @ b, work, "GFLOP/s", target, args)

    return {
        "float32 GEMM 1024": lambda: row(1024, "float32", 0.8),
        "float32 GEMM 2048": lambda: row(2048, "float32", 0.8),
        "float16 GEMM 1024": lambda: row(1024, "float16", 40),
        "bfloat16 GEMM 1024": lambda: row(1024, "bfloat16", 0.5),
    }


def other_rows(torch, kernels, args) -> dict[str, Callable[[], Row]]:
    functional = torch.nn.functional

    def add(size: int) -> Row:
        a, b, c, d = torch.randn(size), torch.randn(size), torch.empty(size), torch.empty(size)
        kernel = kernels.vector_add(size)
        kernel(a, b, c)
        check(c, a + b, 0)
        theirs = lambda: torch.add(a, b, out=d)  # noqa: E731
        return compare(f"vector add 2^{size.bit_length() - 1}", lambda: kernel(a, b, c), theirs, 12 * size, "GB/s",
                       0.9, args)

    def softmax(rows: int, cols: int) -> Row:
        x = torch.randn(rows, cols)
        kernel = kernels.softmax(rows, cols)
        check(kernel(x), torch.softmax(x, -1), 1e-4)
        return compare(f"softmax {rows}x{cols}", lambda: kernel(x), lambda: torch.softmax(x, -1), 8 * x.numel(),
                       "GB/s", 1.0, args)

    def layer_norm(rows: int, cols: int) -> Row:
        x, w, b = torch.randn(rows, cols), torch.randn(cols), torch.randn(cols)
        kernel = kernels.layer_norm(rows, cols)
        theirs = lambda: functional.layer_norm(x, (cols,), w, b, 1e-5)  # noqa: E731
        check(kernel(x, w, b), theirs(), 1e-4)
        return compare(f"LayerNorm {rows}x{cols}", lambda: kernel(x, w, b), theirs, 8 * x.numel(), "GB/s", 1.0, args)

    def softmax_into(rows: int, cols: int) -> Row:
        x = torch.randn(rows, cols)
        ours, theirs = torch.empty_like(x), torch.empty_like(x)
        kernel = kernels.softmax_into(rows, cols)
        kernel(x, ours)
        check(ours, torch.softmax(x, -1, out=theirs), 1e-4)
        return compare(f"softmax {rows}x{cols}, output given", lambda: kernel(x, ours),
                       lambda: torch.softmax(x, -1, out=theirs), 8 * x.numel(), "GB/s", 1.0, args)

    def layer_norm_into(rows: int, cols: int) -> Row:
        x, w, b = torch.randn(rows, cols), torch.randn(cols), torch.randn(cols)
        ours, theirs, mean, scale = torch.empty_like(x), torch.empty_like(x), torch.empty(rows, 1), torch.empty(rows, 1)
        kernel, layer_norm_out = kernels.layer_norm_into(rows, cols), torch.ops.aten.native_layer_norm.out
        call = lambda: layer_norm_out(x, (cols,), w, b, 1e-5, out0=theirs, out1=mean, out2=scale)  # noqa: E731
        kernel(x, w, b, ours)
        call()
        check(ours, theirs, 1e-4)
        return compare(f"LayerNorm {rows}x{cols}, output given", lambda: kernel(x, w, b, ours), call, 8 * x.numel(),
                       "GB/s", 1.0, args)

    def attention(batch: int, heads: int, length: int, dim: int) -> Row:
        q, k, v = torch.randn(3, batch, heads, length, dim).unbind()
        kernel = kernels.attention(batch, heads, length, dim)
        theirs = lambda: functional.scaled_dot_product_attention(q, k, v)  # noqa: E731
        check(kernel(q, k, v), theirs(), 1e-4)
        work = 4 * batch * heads * length * length * dim
        return compare(f"attention {(batch, heads, length, dim)}", lambda: kernel(q, k, v), theirs, work, "GFLOP/s",
                       1.0, args)

    return {
        "vector add": lambda: add(1 << 25),
        "softmax": lambda: softmax(4096, 4096),
        "softmax, output given": lambda: softmax_into(4096, 4096),
        "LayerNorm": lambda: layer_norm(4096, 4096),
        "LayerNorm, output given": lambda: layer_norm_into(4096, 4096),
        "attention": lambda: attention(1, 8, 1024, 64),
    }


_READY = """
import time, sys
sys.path.insert(0, {folder!r})
import tilelang, tilelang.language, cpu_kernels
factory = cpu_kernels.example("02_gemm/gemm_simple.py").tensor_core
start = time.perf_counter()
factory(1024, 1024, 1024)
print((time.perf_counter() - start) * 1e3)
"""


_IMPORT = "import time; start = time.perf_counter(); import {}; print((time.perf_counter() - start) * 1e3)"


def output_of(script: str, environment: dict[str, str] | None = None) -> str:
    """What a Python script prints in a process of its own."""
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if result.returncode != 0:
        raise SystemExit(f"a process of the benchmark failed with status {result.returncode}\n{result.stderr}")
    return result.stdout


def ordinary_rows(torch, kernels, args) -> dict[str, Callable[[], Row]]:
    """Programs written without a thought for this machine; there are no targets."""

    def row(label: str, make: Callable[[], tuple[Callable, tuple, Callable]], unit: str = "GB/s") -> Row:
        kernel, arrays, theirs = make()
        expected, moved = theirs(*arrays), sum(a.nbytes for a in arrays)
        check(kernel(*arrays), expected, 2e-2)
        moved += expected.nbytes
        result = compare(label, lambda: kernel(*arrays), lambda: theirs(*arrays), moved, unit, 0, args)
        result.target = ""
        return result

    makers = kernels.ordinary(torch)
    return {label: lambda label=label, make=make: row(label, make) for label, make in makers.items()}


def level1_rows(torch, args) -> dict[str, Callable[[], Row]]:
    """Computations without a schedule: against PyTorch as it is, and against `torch.compile`."""
    import cpu_level1

    def row(name: str, make: Callable[[], tuple[Callable, Callable, float]], *, compiled: bool) -> Row:
        ours, theirs, tolerance = make()
        theirs = torch.compile(theirs, dynamic=False) if compiled else theirs
        found, expected = ours(), theirs()
        for mine, other in zip(*([x] if torch.is_tensor(x) else x for x in (found, expected)), strict=True):
            check(mine, other, tolerance)
        mine, other, ratio = race(ours, theirs, args.rounds, args.seconds)
        return Row(name, mine * 1e3, "ms", other * 1e3, "", ratio, ">= 1x", ratio >= 1)

    return {
        name + suffix: lambda name=name + suffix, make=make, compiled=bool(suffix): row(name, make, compiled=compiled)
        for suffix in ("", COMPILED)
        for name, make in cpu_level1.ROWS.items()
    }


def overhead_rows(torch, numpy, kernels, args) -> dict[str, Callable[[], Row]]:
    def python_side() -> Row:
        import tilelang
        from tilelang.jit.program import generate_source
        from tilelang.options import CompileOptions
        from tilelang.targets.target import parse_target

        target, options = parse_target("cpu"), CompileOptions()
        tilelang.disable_cache()
        samples = []
        for _ in range(args.rounds + 1):
            start = time.perf_counter()
            generate_source(kernels.gemm_program(1024), target, options)
            samples.append((time.perf_counter() - start) * 1e3)
        tilelang.enable_cache()
        return limit("compile tiled GEMM, Python side", statistics.median(samples[1:]), "ms", 100)

    def cached() -> Row:
        script = _READY.format(folder=str(Path(__file__).resolve().parent))
        samples = [float(output_of(script)) for _ in range(args.rounds + 1)]
        return limit("cached GEMM ready in a fresh process", statistics.median(samples[1:]), "ms", 20)

    def imports() -> Row:
        """What importing costs more than NumPy alone, with the bytecode there, as for a package that is installed."""
        with tempfile.TemporaryDirectory() as folder:
            environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
            environment["PYTHONPYCACHEPREFIX"] = folder

            def ms(names: str) -> float:
                return float(output_of(_IMPORT.format(names), environment))

            samples = [
                ms("tilelang, tilelang.language") - ms("numpy") for _ in range(args.rounds + 1)
            ]  # the first one leaves the bytecode
        return limit("import, beyond NumPy's own", statistics.median(samples[1:]), "ms", 120)

    def call(name: str, arrays, most: float) -> Row:
        kernel = kernels.small_vector_add()
        samples = [seconds_per_call(lambda: kernel(*arrays), 20_000) * 1e6 for _ in range(args.rounds)]
        return limit(f"call with three {name}", statistics.median(samples), "us", most)

    def eager(name: str, arrays, most: float, **keywords) -> Row:
        """What a call of an eager function costs more than that of its kernel."""
        function, kernel = kernels.eager_add, kernels.eager_add(*arrays, __return_kernel=True)
        named = dict(zip("ABC", arrays, strict=True), **keywords) if keywords else {}
        call = (lambda: function(**named)) if named else (lambda: function(*arrays))
        value = undisturbed(call) - undisturbed(lambda: kernel(*arrays))
        what = "by keyword" if keywords else "by position"
        return limit(f"eager over kernel, {name} {what}", value * 1e6, "us", most)

    def factory(what: str, most: float, *values, **keywords) -> Row:
        make = kernels.add_factory()
        make(*values, **keywords)
        return limit(f"kernel made before, {what}", undisturbed(lambda: make(*values, **keywords)) * 1e6, "us", most)

    arrays = [numpy.ones(16, numpy.float32) for _ in range(3)]
    tensors = [torch.ones(16) for _ in range(3)]
    return {
        "import": imports,
        "compile": python_side,
        "cached": cached,
        "call NumPy": lambda: call("NumPy arrays", arrays, 5),
        "call torch": lambda: call("torch tensors", tensors, 6),
        "eager NumPy": lambda: eager("NumPy", arrays, 1.5),
        "eager NumPy keywords": lambda: eager("NumPy", arrays, 1.5, block=16),
        "eager torch": lambda: eager("torch", tensors, 1.5),
        "eager torch keywords": lambda: eager("torch", tensors, 1.5, block=16),
        "factory": lambda: factory("f(16)", 1.5, 16),
        "factory keywords": lambda: factory("f(16, block=16)", 1.5, 16, block=16),
    }


def cpu_name() -> str:
    match = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    return match[1].strip() if match else platform.processor() or platform.machine()


def show(row: Row) -> None:
    theirs = f"{row.theirs:10.3f} {row.unit}" if row.theirs is not None else " " * 13
    ratio = f"{row.ratio:7.2f}x" if row.theirs is not None else " " * 8
    verdict = "" if not row.target else "yes" if row.met else "NO"
    print(f"{row.name:<38}{row.ours:10.3f} {row.unit:<3}{theirs}{row.figure:>16}{ratio}  {row.target:<9} {verdict}",
          flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each side in each round")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--level1", action="store_true", help="computations without a schedule instead")
    parser.add_argument("--ordinary", action="store_true", help="programs of every kind as well, without targets")
    parser.add_argument("--shared", action="store_true", help="other work runs beside it: count processor time")
    args = parser.parse_args()
    Settings.shared = args.shared
    if args.shared and args.threads > 1:
        raise SystemExit("--shared counts the time of all threads: add --threads 1")
    for name in ("OMP_NUM_THREADS", "TILELANG_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(args.threads)  # before the libraries start their threads
    try:
        import torch
    except ImportError:
        raise SystemExit("PyTorch is what we compare with: .venv/bin/pip install torch") from None
    import cpu_kernels as kernels
    import numpy

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    print(f"{cpu_name()}, {args.threads} threads, torch {torch.__version__}\n")
    print(f"{'':<38}{'ours':>13}{'torch':>13}{'':>16}{'ratio':>8}  {'target':<9} met")
    makers = level1_rows(torch, args) if args.level1 else {
        **gemm_rows(torch, kernels, args),
        **other_rows(torch, kernels, args),
        **overhead_rows(torch, numpy, kernels, args),
        **(ordinary_rows(torch, kernels, args) if args.ordinary else {}),
    }
    rows = []
    for label, make in makers.items():
        if args.only.lower() in label.lower():
            rows.append(make())
            show(rows[-1])

    slug = re.sub(r"[^a-z0-9]+", "-", cpu_name().lower()).strip("-")
    if args.level1 and rows:
        for side, chosen in ("torch", [r for r in rows if COMPILED not in r.name]), (
            "torch.compile", [r for r in rows if COMPILED in r.name]
        ):
            if chosen:
                print(f"geometric mean over {side}: {statistics.geometric_mean(row.ratio for row in chosen):.2f}")
    path = RESULTS / f"{'level1-' * args.level1}{slug}-{args.threads}-threads.json"
    if not args.only:
        RESULTS.mkdir(exist_ok=True)
        record = {
            "cpu": cpu_name(), "threads": args.threads, "torch": torch.__version__, "python": platform.python_version(),
            "date": time.strftime("%Y-%m-%d"), "rounds": args.rounds, "shared": args.shared,
            "rows": [asdict(row) for row in rows],
        }
        path.write_text(json.dumps(record, indent=2) + "\n")
        print(f"\nkept in {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


if __name__ == "__main__":
    main()
