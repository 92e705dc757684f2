"""Every kind of kernel that is measured on a Hopper GPU, with the tiles and sizes of its measurements.

The tables of the benchmarks are read where there are some; other rows are examples with tiles and sizes of models.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import attention_programs
import biased_gemm
import compatible_mla
import compatible_programs
import pytest
from examples_of import benchmark_programs, load

import tilelang
import tilelang.language as T
from tilelang.ir.func import PrimFunc
from tilelang.level1.execution import pass_configs_of, program_of

FAST = {"tl.enable_fast_math": True}
EXACT: dict[str, Any] = {}
Made = tuple[PrimFunc, Mapping[str, Any]]  # a program, and the `pass_configs` with which it is compiled
Make = Callable[[], Made]
Named = Iterator[tuple[str, Make]]


def measured() -> dict[str, Make]:
    """What makes each program, by its name."""
    attention = (_attention, _flash, _variants, _backward, _published, _latent)
    products = (_products, _other_products, _epilogues, _quantized, _serial)
    kinds = (*attention, _by_warps, *products, _memory, _computations)
    return {name: make for kind in kinds for name, make in kind()}


def _label(*parts: Any) -> str:
    return " ".join("x".join(map(str, part)) if isinstance(part, tuple) else str(part) for part in parts if part != "")


def _example(path: str, function: str, *arguments: Any, configs: Mapping[str, Any] = FAST, **tiles: Any) -> Make:
    return lambda: (getattr(load(path), function).get_tir(*arguments, **tiles), configs)


def _program(make: Callable[..., PrimFunc], *arguments: Any, configs: Mapping[str, Any], **options: Any) -> Make:
    return lambda: (make(*arguments, **options), configs)


# -- attention ------------------------------------------------------------------------------------------------------
def _attention() -> Named:
    programs, rows = benchmark_programs(), benchmark_programs("gpu_attention")
    for (shape, causal, *_), dtype in itertools.product(rows.SHAPES, ("float16", "bfloat16")):
        for block_M, block_N, threads, stages in rows.TILES[shape[-1]]:
            configs = {**FAST, **({} if stages is None else {"tl.stages": stages})}
            for kind in ("attention", "attention_online"):
                yield (
                    _label(kind, shape, "causal" * causal, dtype, (block_M, block_N), stages or ""),
                    _program(
                        getattr(programs, f"{kind}_program"), *shape, block_M, block_N, threads=threads, causal=causal,
                        dtype=dtype, configs=configs,
                    ),
                )  # fmt: skip
    narrow = _program(programs.attention_program, 4, 32, 4096, 128, 128, 64, threads=256, configs=FAST)
    yield "attention 128x64", narrow


def _flash() -> Named:
    for causal in (False, True):
        for dims, tile, dtype, configs in (
            ((64, 64), (256, 64), "float16", EXACT),
            ((96, 96), (128, 128), "float16", EXACT),
            ((192, 128), (128, 128), "float16", EXACT),
            ((192, 128), (192, 64), "float16", EXACT),
            ((256, 256), (128, 80), "float16", EXACT),
            ((64, 64), (128, 128), "float8_e4m3fn", EXACT),
            ((128, 128), (128, 128), "float8_e4m3fn", EXACT),
            ((128, 128), (192, 96), "float8_e4m3fn", EXACT),
            ((128, 128), (192, 96), "float8_e4m3fn", FAST),
        ):
            yield (
                _label("flash", dims, tile, dtype, "causal" * causal, "fast" * (configs is FAST)),
                _program(
                    attention_programs.flash, 8, 15 * 256, dims[0], *tile, causal=causal, threads=2 * tile[0],
                    dim_v=dims[1], dtype=dtype, configs=configs,
                ),
            )  # fmt: skip


def _variants() -> Named:
    folder, variants = "03_attention", "03_attention/attention_variants.py"
    for name, options in {**load(variants).VARIANTS, "long window": {"window": 1024}}.items():
        for dim, tile, dtype in (
            (64, (128, 128), "float16"),
            (128, (128, 128), "bfloat16"),
            (128, (128, 64), "float16"),
            (256, (128, 64), "float16"),
        ):
            tiles = {"block_M": tile[0], "block_N": tile[1], "threads": 256, "dtype": dtype, **options}
            yield _label(name, dim, tile, dtype), _example(variants, "attention", 4, 8, 4, 4096, dim, **tiles)
    for causal in (False, True):
        name, options = "causal" * causal, {"causal": causal}
        yield (
            _label("float8", name),
            _example(f"{folder}/float8_attention.py", "float8_attention", 32, 4096, 128, **options),
        )
        yield (
            _label("flash_attention.py", name),
            _example(f"{folder}/flash_attention.py", "flash_attention", 4, 32, 4096, 64, **options),
        )
    for group, splits, page in ((4, 1, 64), (8, 16, 64), (8, 1, 128), (16, 4, 64)):
        shape = (16, 8, group, 4096, 128, 128, splits, page)
        yield _label("paged decoding", shape), _example(f"{folder}/paged_decoding.py", "paged_decoding", *shape)


def _backward() -> Named:
    path, rows = "03_attention/attention_backward.py", benchmark_programs("gpu_examples")
    yield "backward, delta", _example(path, "attention_delta", *rows.BACKWARD)
    for block_M, block_N, threads in rows.BACKWARD_TILES:
        for causal in (False, True):
            tiles = {"block_M": block_M, "block_N": block_N, "threads": threads, "causal": causal}
            name = _label("backward", (block_M, block_N), "causal" * causal)
            yield name, _example(path, "attention_backward", *rows.BACKWARD, **tiles)
    published = (1, 64, 4096, 128, 32, 128, 256, "float16")
    for causal in (False, True):
        made = _program(compatible_programs.attention_backward, *published, causal, configs=FAST)
        yield _label("backward, as published", "causal" * causal), made


def _published() -> Named:
    """Linear attention, MLA, decoding, grouped heads, windows and sequences of different lengths."""
    for row in benchmark_programs("published_rows").ROWS:
        for tile in row.tiles:
            if (row.arguments[-1], tile.get("block_N")) != (256, 128):  # more shared memory than there is
                yield _label(row.name, tuple(tile.values())), _example(row.example, row.function, *row.arguments, **tile)


# besides tiles of 128 columns and 4 warps, whose sums take more registers than there are
_SPILLING = {("gated delta rule", 128, 256)}


def _by_warps() -> Named:
    """What runs by the instructions of warps, as on GPUs before Hopper."""
    programs, rows = benchmark_programs(), benchmark_programs("gpu_products")
    kinds = (("exact", programs.MMA), ("fast", {**programs.MMA, **FAST}))
    for tile, threads, causal in (((128, 64), 128, False), ((128, 128), 256, False), ((128, 128), 256, True)):
        for kind, configs in kinds:
            if (tile, kind) == ((128, 64), "exact"):
                continue  # spills 16 bytes: exponentials of all scores are in flight
            options = {"threads": threads, "causal": causal}
            made = _program(programs.attention_program, 4, 32, 4096, 128, *tile, configs=configs, **options)
            yield _label("attention, mma.sync", tile, "causal" * causal, kind), made
    for row in (row for row in benchmark_programs("published_rows").ROWS if row.example.startswith("06_linear")):
        for tile, (kind, configs) in itertools.product(row.tiles, kinds):
            if (row.name, *tile.values()) not in _SPILLING and tuple(tile.values()) != (128, 128):
                made = _example(row.example, row.function, *row.arguments, configs=configs, **tile)
                yield _label(f"{row.name}, mma.sync", tuple(tile.values()), kind), made
    for tile in rows.MMA_TILES:
        tiles = dict(zip(("block_M", "block_N", "block_K", "num_stages", "threads"), tile, strict=True))
        for kind, sizes in (("", (4096,) * 3), ("dynamic", tuple(map(T.dynamic, "MNK")))):
            made = _program(programs.gemm_program, *sizes, configs=programs.MMA, panel=8, **tiles)
            yield _label("gemm, mma.sync", tile, kind), made


def _latent() -> Named:
    folder, rows = "04_mla_decoding", benchmark_programs("gpu_examples")
    for batch, length, _ in rows.MLA:
        shape = (batch, 128, length, 512, 64)
        yield _label("MLA", shape), _example(f"{folder}/mla_absorbed.py", "mla_absorbed", *shape)
    published = _program(compatible_mla.mla_split, 64, 128, 8192, 512, 64, 4, configs=FAST)
    yield "MLA, split, as published", published
    yield "paged MLA, split", _example(f"{folder}/mla_paged.py", "mla_paged", 8, 128, 1024, 128, 512, 64, 4)
    yield "MLA prefill", _example(f"{folder}/mla_prefill.py", "mla_prefill", 1, 128, 4096, 128, 64, 128, 128)
    for function in ("mla_decode", "mla_decode_split"):
        yield function, _example(f"{folder}/mla_decode.py", function, 8, 16, 4096, 128, 512)


# -- products -------------------------------------------------------------------------------------------------------
def _products() -> Named:
    make, rows = benchmark_programs().gemm_program, benchmark_programs("gpu_products")

    def gemm(name: str, shape: tuple[int, int, int], tile: tuple[int, ...], **options: Any) -> tuple[str, Make]:
        tiles = dict(zip(("block_M", "block_N", "block_K", "num_stages", "threads"), tile, strict=True))
        return _label("gemm", shape, tile, name), _program(make, *shape, configs=EXACT, **tiles, **options)

    for shape, tile, _ in (*rows.SHAPES, *rows.SPLIT):
        yield gemm("", shape, tile)
        yield gemm("bfloat16", shape, tile, dtype="bfloat16", out_dtype="bfloat16")
    for size, pitch, tile in rows.UNEVEN:
        yield gemm("uneven", (size,) * 3, tile, pitch=pitch)
    for size in (4096, 8192):
        options = {"dtype": "float8_e4m3fn", "out_dtype": "bfloat16", "transpose_B": True}
        yield gemm("float8", (size,) * 3, rows.FLOAT8_TILE, **options)
    for kinds in ("NT", "TN", "TT"):
        yield gemm(kinds, (4096,) * 3, rows.WIDE, transpose_A=kinds[0] == "T", transpose_B=kinds[1] == "T")
    for tile in rows.SEED_TILES:
        yield gemm("as written", (4096,) * 3, tile)


def _other_products() -> Named:
    deep, large = (512, 512, 16384), (4096, 4096, 4096)
    for file, function, shape in (
        ("float8_gemm", "block_scaled", large),
        ("split_k_gemm", "by_workspace", deep),
        ("split_k_gemm", "by_atomics", deep),
        ("stream_k_gemm", "stream_k", (1536, 1536, 1536, 132)),
        ("batched_gemm", "batched", (16, 1024, 1024, 1024)),
        ("persistent_gemm", "persistent", large),
        ("warp_specialized_gemm", "warp_specialized", large),
    ):
        yield _label(function, shape), _example(f"02_gemm/{file}.py", function, *shape, configs=EXACT)


def _epilogues() -> Named:
    rows, path, size = benchmark_programs("gpu_examples"), "02_gemm/gemm_epilogues.py", (4096, 4096, 4096)
    for tile in rows.GROUPED_TILES:
        shape = (8, 16384, 4096, 4096)
        made = _example("02_gemm/grouped_gemm.py", "grouped", *shape, *tile, dtype="bfloat16", configs=EXACT)
        yield _label("grouped", tile), made
    for tile in rows.MLP_TILES:
        yield _label("gated MLP", tile), _example("02_gemm/gated_mlp.py", "gated_mlp", 4096, 4096, 14336, *tile)
    for configs, kind in ((EXACT, "exact"), (FAST, "fast")):
        for name in load(path).ACTIVATIONS:
            yield _label("bias and", name, kind), _example(path, "bias_activation", *size, name, configs=configs)
        yield _label("residual", kind), _example(path, "residual", *size, 0.5, 2.0, configs=configs)
        for tile in ((128, 128, 64), (128, 256, 64)):
            for name in load(path).ACTIVATIONS:
                made = _example(path, "bias_activation", *size, name, *tile, configs=configs)
                yield _label("bias and", name, tile, kind), made
            yield _label("residual", tile, kind), _example(path, "residual", *size, 0.5, 2.0, *tile, configs=configs)
        for tile in ((128, 64, 32), (128, 64, 64), (128, 128, 64)):
            yield _label("SwiGLU", tile, kind), _example(path, "swiglu", *size, *tile, configs=configs)


def _quantized() -> Named:
    folder, rows = "05_quantized_gemm", benchmark_programs("gpu_examples")
    for size, _, tiles in rows.W4A16:
        for tile, configs in tiles:
            made = _example(f"{folder}/w4a16_gemm.py", "w4a16_gemm", size, 8192, 8192, 128, *tile, configs=configs)
            yield _label("W4A16", size, tile), made
    for tile in ((128, 128), (64, 128)):
        tiles = {"block_M": tile[0], "block_N": tile[1]}
        made = _example(f"{folder}/w8a8_gemm.py", "w8a8_gemm", 4096, 8192, 8192, configs=EXACT, **tiles)
        yield _label("W8A8", tile), made


def _serial() -> Named:
    for tile in ((128, 64, 64), (256, 128, 64)):
        yield _label("biased, serial", tile), _program(biased_gemm.biased, 256, 256, 512, *tile, 256, configs=EXACT)


# -- others ---------------------------------------------------------------------------------------------------------
def _memory() -> Named:
    programs = benchmark_programs()
    yield "vector add", _kernel(programs, "vector_add", 1 << 28)
    for columns in (1024, 4096, 16384, 65536):
        for name in ("softmax", "layer_norm", "rms_norm"):
            yield _label(name, columns), _kernel(programs, name, (1 << 28) // columns, columns)
    yield "gemv", _kernel(programs, "gemv", 32768, 32768)
    yield "transpose", _kernel(programs, "transpose", 16384, 16384)


def _kernel(programs: ModuleType, name: str, *sizes: int) -> Make:
    """A program of which the benchmark gives the compiled kernel."""

    def make() -> Made:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(programs, "build", lambda func: func)
            return getattr(programs, name)(*sizes), EXACT

    return make


def _computations() -> Named:
    computations = benchmark_programs("level1_computations")
    large = (4096, 4096)
    for name, *shapes in (
        ("softmax", (16384, 4096)),
        ("log_softmax", (8192, 32768)),
        ("layer_norm", (16384, 4096), (4096,), (4096,)),
        ("rms_norm", (16384, 4096), (16384, 4096), (4096,)),
        ("gelu_matmul", large, (4096, 16384), (16384,)),
        ("gated_mlp", large, (4096, 14336), (4096, 14336), (14336, 4096)),
        ("batch_statistics", (64, 256, 56, 56)),
        ("nearest", (131072, 128), (1024, 128)),
        ("rope", (4, 32, 4096, 128), (4096, 128), (4096, 128)),
        ("router", (16384, 4096), (4096, 64)),
        ("attention", *[(4, 32, 4096, 128)] * 3),
        ("decoding", (16, 32, 1, 128), *[(16, 8, 8192, 128)] * 2),
        *(("matmul", (m, k), (k, n)) for m, n, k in ((4096, 4096, 4096), (16, 8192, 8192), (512, 512, 16384))),
    ):
        yield _label(name, *shapes), _computation(getattr(computations, name), *shapes)


def _computation(computation: Any, *shapes: tuple[int, ...]) -> Make:
    def make() -> Made:
        compiled = tilelang.compute(target={"kind": "cuda", "arch": "sm_90a"})(computation.function)
        lowered = compiled.lower(*(T.Tensor(shape, "float16") for shape in shapes))
        return program_of(lowered.text, lowered.entry), pass_configs_of(lowered, compiled.options)

    return make
