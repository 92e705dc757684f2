"""The kernels whose time `model.py` predicts and measures: families of programs, each over shapes and tiles.

A case is made by a function without arguments that gives a compiled kernel, so that processes can compile many at once.
"""

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import gpu_kernels
import level1_computations
from cpu_kernels import example
from gpu_kernels import MMA, build

import tilelang.language as T
from tilelang.autotuner import gemm_configs
from tilelang.jit.options import JitOptions
from tilelang.level1.execution import compile_lowered
from tilelang.level1.tune import candidates
from tilelang.targets.target import parse_target


@dataclass(frozen=True, eq=False)
class Case:
    """One kernel: the family in which it is ranked, its name, and what makes it."""

    family: str
    name: str
    make: Callable


# -- matrix products ---------------------------------------------------------------------------------------------
_SHAPES = (
    (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (1536, 1536, 1536), (2048, 2048, 2048), (4096, 4096, 4096),
    (8192, 8192, 8192), (512, 512, 16384), (128, 4096, 14336), (4096, 4096, 512), (8192, 1024, 4096),
)  # fmt: skip
_TILES = (
    ((64, 64, 64, 4, 128), {}),
    ((64, 128, 64, 4, 128), {}),
    ((128, 128, 64, 4, 256), {}),
    ((128, 256, 64, 4, 256), {}),
    ((128, 128, 64, 4, 256), {"tl.persistent": False}),
    ((256, 128, 64, 4, 256), {}),
    ((128, 192, 64, 4, 256), {"tl.ping_pong": True, "tl.persistent": True}),
    ((64, 128, 64, 4, 128), {"tl.split": 4}),
)
_TUNED = ((1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (512, 512, 16384), (128, 4096, 14336))
_SKINNY = ((16, 4096, 4096), (16, 8192, 8192), (32, 4096, 14336), (64, 8192, 8192))


def _gemm(family, shape, tile, switches=None, **options):
    names = ("block_M", "block_N", "block_K", "num_stages", "threads")
    tiles = dict(zip(names, tile, strict=True))
    kind = "".join(f" {key.removeprefix('tl.')}={value}" for key, value in (switches or {}).items())
    kind += "".join(f" {value}" for value in options.values())
    name = f"{'x'.join(map(str, shape))} {'x'.join(map(str, tile))}{kind}"
    return Case(family, name, partial(gpu_kernels.gemm, *shape, pass_configs=switches or None, **tiles, **options))


def _gemms():
    for number, shape in enumerate(_SHAPES):
        for offset, (tile, switches) in enumerate(_TILES):
            too_large = "tl.split" in switches and shape[0] * shape[1] > 1024**2
            if (number + offset) % 2 == 0 and not too_large or number in (2, 5, 7):
                yield _gemm("gemm", shape, tile, switches) if not too_large else None
    for shape in _SKINNY:
        tiles = ((16, 64, 128, 6, 128), (32, 128, 128, 4, 128), (64, 64, 64, 8, 128))
        for tile in tiles:
            if tile[0] <= shape[0] * 2:
                yield _gemm("gemm skinny", shape, tile)
    for shape in ((1024, 1024, 1024), (4096, 4096, 4096)):
        for tile in ((128, 128, 32, 4, 128), (128, 256, 32, 4, 256), (64, 64, 32, 3, 128)):
            yield _gemm("gemm mma", shape, tile, MMA)
        yield _gemm("gemm dtypes", shape, (128, 256, 64, 4, 256), dtype="bfloat16")
        yield _gemm("gemm dtypes", shape, (128, 128, 32, 4, 256), dtype="float32")
        yield _gemm("gemm dtypes", shape, (128, 256, 128, 4, 256), dtype="float8_e4m3fn", out_dtype="bfloat16",
                    transpose_B=True)  # fmt: skip
        yield _gemm("gemm dtypes", shape, (128, 128, 64, 4, 256), dtype="int8", out_dtype="int32",
                    accum_dtype="int32", transpose_B=True)  # fmt: skip


def _tuned_gemms():
    """All configurations that the tuner has for a shape."""
    for shape in _TUNED:
        for config in gemm_configs(target="cuda", M=shape[0], N=shape[1], K=shape[2]):
            tile, switches = list(config.values())[:5], config.get("pass_configs")
            yield _gemm(f"tiles {shape[0]}x{shape[1]}x{shape[2]}", shape, tile, switches)


def _split_k():
    for shape, splits in (((512, 512, 8192), 4), ((512, 512, 8192), 8), ((256, 1024, 16384), 8)):
        for name in ("by_atomics", "by_workspace"):
            label = f"{'x'.join(map(str, shape))} {name} in {splits}"
            yield Case("split-K", label, partial(_example, "02_gemm/split_k_gemm.py", name, *shape, splits=splits))


def _dequantized():
    for shape in ((16, 4096, 4096), (256, 4096, 4096), (2048, 4096, 4096)):
        for tile in ({"block_M": 64, "block_N": 128}, {"block_M": 128, "block_N": 128}):
            label = f"{'x'.join(map(str, shape))} {tile['block_M']}x{tile['block_N']}"
            yield Case("dequantized", label, partial(_example, "05_quantized_gemm/w4a16_gemm.py", "w4a16_gemm", *shape,
                                                     **tile))  # fmt: skip


def _example(file, name, *args, **keywords):
    return build(getattr(example(file), name).get_tir(*args, **keywords))


# -- elements and rows -------------------------------------------------------------------------------------------
def _elementwise(size, dtype, operation, block, threads):
    @T.prim_func
    def main(A: T.Tensor((size,), dtype), B: T.Tensor((size,), dtype), C: T.Tensor((size,), dtype)):
        with T.Kernel(T.ceildiv(size, block), threads=threads) as bx:
            for i in T.Parallel(block):
                x, y = T.float32(A[bx * block + i]), T.float32(B[bx * block + i])
                C[bx * block + i] = operation(x, y)

    return build(main)


def _add(x, y):
    return x + y


def _gelu(x, y):
    return 0.5 * x * (1.0 + T.tanh(0.7978845608 * (x + 0.044715 * x * x * x))) + y


def _powers(x, y):
    for _ in range(12):
        x = T.exp(x * y) * 0.5
    return x


def _cast(rows, cols, block_rows, block_cols, threads=128):
    @T.prim_func
    def main(A: T.Tensor((rows, cols), "float32"), B: T.Tensor((rows, cols), "float16")):
        with T.Kernel(T.ceildiv(cols, block_cols), T.ceildiv(rows, block_rows), threads=threads) as (bx, by):
            for i, j in T.Parallel(block_rows, block_cols):
                B[by * block_rows + i, bx * block_cols + j] = A[by * block_rows + i, bx * block_cols + j]

    return build(main)


def _row_sum(rows, cols, block_rows, block_cols, dtype, threads=128):
    @T.prim_func
    def main(X: T.Tensor((rows, cols), dtype), Y: T.Tensor((rows,), "float32")):
        with T.Kernel(T.ceildiv(rows, block_rows), threads=threads) as bx:
            total = T.alloc_fragment((block_rows,), "float32")
            T.clear(total)
            for k in T.serial(T.ceildiv(cols, block_cols)):
                for i, j in T.Parallel(block_rows, block_cols):
                    total[i] += T.float32(X[bx * block_rows + i, k * block_cols + j])
            T.copy(total, Y[bx * block_rows])

    return build(main)


def _column_sum(rows, cols, block_rows, block_cols, dtype, threads=128):
    @T.prim_func
    def main(X: T.Tensor((rows, cols), dtype), Y: T.Tensor((cols,), "float32")):
        with T.Kernel(T.ceildiv(cols, block_cols), threads=threads) as bx:
            tile = T.alloc_fragment((block_rows, block_cols), dtype)
            total = T.alloc_fragment((block_cols,), "float32")
            T.clear(total)
            for k in T.serial(T.ceildiv(rows, block_rows)):
                T.copy(X[k * block_rows, bx * block_cols], tile)
                T.reduce_sum(tile, total, dim=0, clear=False)
            T.copy(total, Y[bx * block_cols])

    return build(main)


def _memory_bound():
    for size, dtype in (
        (1 << 10, "float32"), (1 << 16, "float16"), (1 << 20, "float16"), (1 << 24, "float32"), (1 << 27, "float32"),
    ):  # fmt: skip
        for operation in (_add, _gelu, _powers):
            for block, threads in ((1024, 128), (4096, 256)):
                if operation is not _gelu or block == 4096:
                    name = f"{operation.__name__[1:]} {size} {dtype} {block} t{threads}"
                    make = partial(_elementwise, size, dtype, operation, block, threads)
                    yield Case("elementwise", name, make)
    for rows, cols in ((1024, 1024), (8192, 8192)):
        for tile in ((16, 128), (64, 64)):
            yield Case("elementwise", f"cast {rows}x{cols} {tile}", partial(_cast, rows, cols, *tile))
    for rows, cols, block_rows, block_cols, dtype in (
        (128, 65536, 1, 4096, "float32"), (4096, 4096, 1, 2048, "float32"), (4096, 4096, 8, 512, "float16"),
        (65536, 1024, 4, 1024, "float16"), (65536, 256, 16, 256, "float32"), (16, 1 << 20, 1, 8192, "float32"),
    ):  # fmt: skip
        name = f"rows {rows}x{cols} {block_rows}x{block_cols} {dtype}"
        yield Case("reduction", name, partial(_row_sum, rows, cols, block_rows, block_cols, dtype))
    for rows, cols, block_rows, block_cols, dtype in (
        (4096, 4096, 32, 64, "float32"), (4096, 4096, 64, 32, "float32"), (16384, 8192, 32, 128, "float16"),
        (1024, 65536, 16, 256, "float32"),
    ):  # fmt: skip
        name = f"columns {rows}x{cols} {block_rows}x{block_cols} {dtype}"
        yield Case("reduction", name, partial(_column_sum, rows, cols, block_rows, block_cols, dtype))
    for program, rows, cols in itertools.product(
        (gpu_kernels.softmax, gpu_kernels.layer_norm, gpu_kernels.rms_norm),
        (64, 4096, 32768), (512, 4096, 32768, 65536),
    ):  # fmt: skip
        if rows * cols <= 1 << 28 and (rows, cols) not in ((64, 512), (32768, 32768)):
            family = "softmax" if program is gpu_kernels.softmax else "normalization"
            yield Case(family, f"{program.__name__} {rows}x{cols}", partial(program, rows, cols))
    for rows, cols, block_rows, block_cols in (
        (4096, 4096, 4, 2048), (16384, 4096, 4, 2048), (1024, 16384, 4, 2048), (32768, 32768, 4, 2048),
        (4096, 4096, 16, 512), (16384, 16384, 1, 4096), (4096, 14336, 2, 1024), (512, 65536, 1, 8192),
    ):  # fmt: skip
        make = partial(gpu_kernels.gemv, rows, cols, block_rows=block_rows, block_cols=block_cols)
        yield Case("gemv", f"{rows}x{cols} {block_rows}x{block_cols}", make)
    for size, dtype, tile in (
        (1024, "float32", 64), (4096, "float32", 64), (4096, "float32", 32), (16384, "float32", 64),
        (4096, "float16", 64), (8192, "float16", 128), (8192, "float16", 64), (2048, "float16", 32),
    ):  # fmt: skip
        name = f"{size} {dtype} tile {tile}"
        yield Case("transpose", name, partial(gpu_kernels.transpose, size, size, dtype, tile))


# -- attention ---------------------------------------------------------------------------------------------------
def _attention():
    plain, online = gpu_kernels.attention_program, gpu_kernels.attention_online_program
    for program, shape, causal, tiles, switches in (
        (plain, (1, 8, 1024, 128), False, (128, 128, 2, 256), {}),
        (plain, (1, 16, 512, 64), False, (64, 64, 2, 128), {}),
        (plain, (4, 32, 4096, 128), False, (128, 128, 2, 256), {}),
        (plain, (4, 32, 4096, 128), True, (128, 128, 2, 256), {}),
        (plain, (2, 32, 4096, 128), False, (128, 64, 2, 256), {}),
        (plain, (2, 32, 4096, 128), False, (64, 64, 2, 128), {}),
        (plain, (2, 32, 4096, 128), False, (128, 64, 2, 128), MMA),
        (plain, (2, 32, 2048, 64), True, (128, 64, 2, 128), MMA),
        (plain, (8, 32, 2048, 64), False, (128, 128, 2, 256), {}),
        (plain, (8, 32, 2048, 64), True, (128, 128, 2, 256), {}),
        (plain, (8, 32, 2048, 64), False, (192, 64, 2, 384), {}),
        (online, (4, 32, 4096, 128), False, (128, 128, 2, 256), {}),
        (online, (4, 32, 4096, 128), False, (192, 80, 2, 384), {}),
        (online, (4, 32, 4096, 128), True, (192, 80, 2, 384), {}),
        (online, (1, 32, 2048, 128), True, (128, 128, 2, 256), {}),
        (online, (8, 16, 1024, 64), False, (192, 128, 2, 384), {}),
    ):
        name = f"{'plain' if program is plain else 'online'} {'x'.join(map(str, shape))}{' causal' * causal} " \
               f"{'x'.join(map(str, tiles))}{' mma' * bool(switches)}"
        options = {"tl.enable_fast_math": True, **switches}
        block_m, block_n, stages, threads = tiles
        func = partial(program, *shape, block_m, block_n, stages, threads, causal=causal)
        yield Case("attention", name, partial(_built, func, options))


def _built(program, options):
    return build(program(), pass_configs=options)


# -- computations ------------------------------------------------------------------------------------------------
_CANDIDATES = 9  # programs of each


def _computed():
    """Level 1: the program that is chosen without measurements, and others that a search looks at."""
    for name, *shapes in (
        ("softmax", (4096, 1024)), ("softmax", (16384, 4096)), ("softmax", (256, 32768)),
        ("layer_norm", (8192, 2048), (2048,), (2048,)), ("layer_norm", (512, 8192), (8192,), (8192,)),
        ("rms_norm", (4096, 4096), (4096, 4096), (4096,)),
        ("batch_statistics", (64, 64, 56, 56)),
        ("rope", (2, 32, 2048, 128), (2048, 128), (2048, 128)),
        ("gelu_matmul", (2048, 2048), (2048, 8192), (8192,)), ("matmul", (256, 4096), (4096, 1024)),
        ("matmul", (1536, 1536), (1536, 1536)), ("matmul", (4096, 2048), (2048, 4096)),
        ("nearest", (65536, 128), (512, 128)),
        ("attention", *[(2, 16, 2048, 64)] * 3), ("attention", *[(2, 32, 4096, 128)] * 3),
        ("decoding", (16, 32, 1, 128), (16, 8, 4096, 128), (16, 8, 4096, 128)),
    ):  # fmt: skip
        graph = getattr(level1_computations, name).graph(*(T.Tensor(shape, "float16") for shape in shapes))
        target = parse_target("cuda")
        for program in candidates(graph, target)[:_CANDIDATES]:
            tiles = "; ".join(map(str, program.tilings))
            family = f"level1 {name} {'x'.join(map(str, shapes[0]))}"
            yield Case(family, tiles, partial(compile_lowered, graph, program, JitOptions(target=target)))


@functools.cache
def cases() -> list[Case]:
    """All of them."""
    parts = (_gemms, _tuned_gemms, _split_k, _dequantized, _memory_bound, _attention, _computed)
    made = itertools.chain.from_iterable(part() for part in parts)
    return [case for case in made if case is not None]
