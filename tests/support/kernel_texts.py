"""Keeps the texts of some hundred kernels, to show what a change of the compiler changes in them.

`python tests/support/kernel_texts.py write FOLDER` writes the C++ and CUDA text of every kernel of the corpus for each target,
or the error that it gives there; after the change, `python tests/support/kernel_texts.py compare FOLDER` prints the
differences and fails if there are any. `--only TEXT` keeps to kernels whose names hold it.

The corpus: the kernels of the examples, those of the GPU benchmarks in several tilings, programs in the style of
published ones, and random programs of every generator.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import itertools
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import compatible_convolution
import compatible_programs as programs
import compatible_rows as rows
import examples_of
from random_kernels.checking import load
from random_kernels.fuzz import GENERATORS, draw

from tilelang.errors import TileLangError
from tilelang.ir.func import PrimFunc
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.targets.target import Target

TARGETS = {
    "cpu": Target("cpu"),
    **{arch: Target("cuda", arch) for arch in ("sm_75", "sm_80", "sm_90a")},
}
RANDOM = range(40_000_000, 40_000_012)  # seeds of each generator

Make = Callable[[], PrimFunc]


@functools.cache
def corpus() -> dict[str, Make]:
    """What makes each kernel, by its name."""
    made = dict(itertools.chain(_examples(), _benchmarks(), _compatible()))
    for generator in GENERATORS:
        for seed in RANDOM:
            made[f"random.{generator}.{seed}"] = lambda g=generator, s=seed: load(draw(g, s).text)
    return made


def _examples() -> Iterator[tuple[str, Make]]:
    for example in examples_of.SIZES:
        for name, func in examples_of.kernels(example).items():
            yield f"{example[:-3].replace('/', '.')}.{name}", lambda f=func: f


def _benchmarks() -> Iterator[tuple[str, Make]]:
    kernels = examples_of.benchmark_programs()
    hopper = {"block_N": 256, "block_K": 64, "threads": 256, "num_stages": 4}
    tilings = {
        "default": {},
        "hopper": hopper,
        "float8": {**hopper, "block_K": 128, "dtype": "float8_e4m3fn", "out_dtype": "float32", "transpose_B": True},
        "int8": {"block_K": 64, "dtype": "int8", "out_dtype": "int32", "accum_dtype": "int32", "transpose_B": True},
        "float32": {"dtype": "float32"},
        "float64": {"dtype": "float64", "accum_dtype": "float64", "block_M": 64, "block_N": 64, "block_K": 16},
        "transposed": {"transpose_A": True, "transpose_B": True},
        "pitch": {"pitch": 2051},
        "panel": {"panel": 8, **hopper},
    }
    for name, tiles in tilings.items():
        yield f"gemm.{name}", lambda t=tiles: kernels.gemm_program(2048, 2048, 2048, **t)
        yield f"gemm_ragged.{name}", lambda t=tiles: kernels.gemm_program(1000, 777, 333, **t)
    heads = {
        "default": (128, {}),
        "causal": (128, {"causal": True}),
        "bfloat16": (64, {"dtype": "bfloat16"}),
        "small": (64, {"block_N": 64, "threads": 128, "block_M": 64}),
    }
    for name, (dim, tiles) in heads.items():
        yield f"attention.{name}", lambda d=dim, t=tiles: kernels.attention_program(2, 8, 1024, d, **t)
    online = {
        "default": {},
        "two warpgroups": {"block_M": 128, "block_N": 128, "threads": 256},
        "causal": {"causal": True, "block_N": 64},
        "bfloat16": {"dtype": "bfloat16"},
    }
    for name, tiles in online.items():
        yield f"attention_online.{name}", lambda t=tiles: kernels.attention_online_program(2, 8, 1024, 128, **t)


def _compatible() -> Iterator[tuple[str, Make]]:
    made: dict[str, Make] = {
        "sparse_mla": lambda: programs.sparse_mla(64, 512, 64, 512, 64, 256, 64, 64, 2, 256),
        "attention_delta": lambda: programs.attention_delta(1, 4, 256, 64, 64, "float16"),
        "attention_backward": lambda: programs.attention_backward(1, 4, 256, 64, 64, 64, 128, "float16", True),
        "dq_in_order": lambda: programs.dq_in_order(1, 4, 256, 64, 64, "float16"),
        "grouped_gemm": lambda: programs.grouped_products(4, 8, 256, 128, 64, 64, 32),
        "reducers": lambda: programs.running_extremes(4, 64, 128),
        "source": lambda: programs.given_source(4, 128),
        "to_float8": lambda: programs.to_float8(256, 1024, 8, "bfloat16", 448.0),
        "from_fp4": lambda: programs.from_fp4(64, 256, 32, 4),
        "topk": lambda: rows.rows_topk(16, 1024, 8, 256),
        "topk_by_rounds": lambda: rows.rows_topk_by_rounds(16, 1024, 8, 256),
        "sort": lambda: rows.rows_sorted(16, 1024, 256),
        "scan": lambda: rows.rows_scanned(16, 1000, True, 256),
        "optional": lambda: rows.optional_mask(40, True),
        "reversed": lambda: rows.reversed_rows(),
        "groups_gemm": lambda: rows.roles_gemm(512, 512, 512, 128, 128, 64, 2),
        "dependent": lambda: rows.dependent_step(4096),
        "convolution": lambda: compatible_convolution.convolution(2, 64, 16, 16, 128, 3, 1, 1, 1, 64, 128, 32, 2, 128),
    }
    for name, make in made.items():
        yield f"compatible.{name}", make


def text_of(make: Make, target: Target) -> str:
    """The text of a kernel for a target, or its error in one line."""
    backend = target.family.backend()
    try:
        return backend.emit(run_passes(make(), backend.passes, PassContext(target=target))).text
    except TileLangError as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}\n"


def _job(given: tuple[str, str]) -> tuple[str, str]:
    name, target = given
    warnings.simplefilter("ignore")
    return f"{name}.{target}", text_of(corpus()[name], TARGETS[target])


def texts(only: str, jobs: int) -> dict[str, str]:
    """All texts by the name of the kernel and the target."""
    warnings.simplefilter("ignore")
    work = [(name, target) for name in corpus() if only in name for target in TARGETS]
    if jobs == 1:
        return dict(map(_job, work))
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        return dict(pool.imap_unordered(_job, work, chunksize=8))


def main() -> int:
    """Runs a command; returns 1 if texts differ."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("command", choices=["write", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="a part of the names of kernels")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    found = texts(options.only, options.jobs)
    if options.command == "write":
        options.folder.mkdir(parents=True, exist_ok=True)
        for name, text in found.items():
            (options.folder / f"{name}.txt").write_text(text)
        print(f"{len(found)} texts written")
        return 0
    different = 0
    for name, text in sorted(found.items()):
        path = options.folder / f"{name}.txt"
        before = path.read_text() if path.exists() else ""
        if before != text:
            different += 1
            lines = difflib.unified_diff(before.splitlines(), text.splitlines(), "before", "after", lineterm="", n=1)
            print(f"== {name}", *list(lines)[2:], sep="\n")
    print(f"{len(found)} texts, {different} differ")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
