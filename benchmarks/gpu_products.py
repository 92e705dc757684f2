"""Rows of `gpu.py` about matrix products: the plain tiled program against cuBLAS, and against itself.

Each group is a function of the bench and the kernels. A tile is (block_M, block_N, block_K, num_stages, threads).
"""

import tilelang
from tilelang.autotuner import gemm_configs

Tile = tuple[int, int, int, int, int]

WIDE, _NARROW = (128, 256, 64, 4, 256), (128, 192, 64, 4, 256)
# (M, N, K), the tile of the plain program that the tuner picks there, and what is asked of it
SHAPES = (
    ((1024, 1024, 1024), (64, 128, 64, 8, 128), 1.02),
    ((2048, 2048, 2048), WIDE, 1.00),
    ((4096, 4096, 4096), WIDE, 1.00),
    ((8192, 8192, 8192), _NARROW, 1.02),
    ((8192, 8192, 1024), _NARROW, 1.05),
    ((64, 8192, 8192), (64, 64, 64, 12, 128), 1.05),
    ((16, 8192, 8192), (16, 64, 128, 6, 128), 1.12),
)
# Shapes whose tiles leave multiprocessors idle: the compiler splits the reduction where that pays
SPLIT = (
    ((512, 512, 16384), (128, 128, 64, 4, 256), 0.95),
    ((128, 4096, 14336), (128, 128, 64, 4, 256), 0.95),
    ((1536, 1536, 1536), (192, 96, 64, 4, 256), 0.95),
)
# Size, elements from row to row where that is not the size, and the tile that the tuner picks
UNEVEN = ((4000, None, WIDE), (5000, None, (128, 224, 64, 4, 256)), (3001, 3008, WIDE))
SEED_TILES = ((128, 128, 32, 3, 128), (128, 256, 64, 3, 256))
MMA_TILES = ((128, 128, 32, 4, 128), (128, 256, 32, 4, 256))
FLOAT8_TILE = (128, 256, 128, 4, 256)
# What a tuner may tell the compiler at one tile size
_SCHEDULES = (
    {}, {"tl.persistent": False}, {"tl.persistent": True}, {"tl.in_flight": 0}, {"tl.in_flight": 1},
    {"tl.consumers": 1}, {"tl.consumers": 2}, {"tl.ping_pong": True}, {"tl.ping_pong": False}, {"tl.staged": False},
    {"tl.consumers": 1, "tl.persistent": False}, {"tl.consumers": 2, "tl.in_flight": 1},
)  # fmt: skip


def close(result, expected, tolerance: float, name: str) -> None:
    """Ends the benchmark if a result is wrong."""
    error = (result.double() - expected.double()).norm() / expected.double().norm()
    if not error <= tolerance:
        raise SystemExit(f"{name}: wrong result, relative error {error:g}")


def _named(tile: Tile) -> dict[str, int]:
    return dict(zip(("block_M", "block_N", "block_K", "num_stages", "threads"), tile, strict=True))


class _Race:
    """A product on fresh random data, ours and cuBLAS's."""

    def __init__(self, bench, kernels, shape, tile: Tile, *, dtype="float16", kinds="NN", pitch=None, **options):
        torch = bench.torch
        M, N, K = shape
        of, out = getattr(torch, dtype), torch.bfloat16 if dtype.startswith("float8") else getattr(torch, dtype)
        (self.a, self.left), (self.b, self.right) = (
            self._matrix(torch, size, kind == "T", of, pitch)
            for size, kind in zip(((M, K), (K, N)), kinds, strict=True)
        )
        self.c, self.d = (
            torch.full((M, pitch or N), float("nan"), device="cuda").to(out)[:, :N] for _ in range(2)
        )
        self.kernel = kernels.gemm(
            M, N, K, dtype=dtype, out_dtype=str(out).removeprefix("torch."), transpose_A=kinds[0] == "T",
            transpose_B=kinds[1] == "T", pitch=pitch, **_named(tile), **options,
        )  # fmt: skip
        self._one = torch.ones((), device="cuda") if dtype.startswith("float8") else None
        self._torch = torch
        self.ours()
        close(self.c, self.left.float() @ self.right.float(), 6e-3 if out is torch.bfloat16 else 2e-3, "GEMM")

    @staticmethod
    def _matrix(torch, size, turned: bool, dtype, pitch):
        """A matrix as it is stored, and as it is multiplied."""
        rows, columns = size[::-1] if turned else size
        stored = torch.randn(rows, pitch or columns, device="cuda").to(dtype)[:, :columns]
        return stored, stored.T if turned else stored

    def ours(self) -> None:
        self.kernel(self.a, self.b, self.c)

    def theirs(self) -> None:
        """cuBLAS, in its faster mode where there are two."""
        if self._one is None:
            self._torch.matmul(self.left, self.right, out=self.d)
        else:
            self._torch._scaled_mm(
                self.left, self.right, self._one, self._one, out_dtype=self.d.dtype, use_fast_accum=True
            )


def _row(bench, kernels, group: str, shape, tile: Tile, target: float, note: str = "", **options) -> None:
    """A row for the plain tiled program against cuBLAS."""
    M, N, K = shape
    race = _Race(bench, kernels, shape, tile, **options)
    name = f"{M}x{N}x{K} {tile[0]}x{tile[1]}x{tile[2]} t{tile[4]}{note}"
    bench.compare(group, name, race.ours, race.theirs, 2 * M * N * K, "GFLOP/s", target)


def gemm_rows(bench, kernels) -> None:
    """The plain tiled program, whose schedule the compiler chooses."""
    for shape, tile, target in SHAPES:
        _row(bench, kernels, "gemm", shape, tile, target)


def bfloat16_rows(bench, kernels) -> None:
    for shape, tile, target in SHAPES:
        _row(bench, kernels, "bfloat16", shape, tile, target, dtype="bfloat16")


def float8_rows(bench, kernels) -> None:
    """e4m3 with float32 sums and bfloat16 results, against `torch._scaled_mm`."""
    for size in (4096, 8192):
        _row(bench, kernels, "float8", (size, size, size), FLOAT8_TILE, 1.0, dtype="float8_e4m3fn", kinds="NT")


def split_rows(bench, kernels) -> None:
    """Few tiles and a long reduction."""
    for shape, tile, target in SPLIT:
        _row(bench, kernels, "split", shape, tile, target)


def uneven_rows(bench, kernels) -> None:
    """Sizes that no tile divides."""
    for size, pitch, tile in UNEVEN:
        note = "" if pitch is None else f" rows of {pitch}"
        _row(bench, kernels, "uneven", (size, size, size), tile, 0.95, note, pitch=pitch)


def layout_rows(bench, kernels) -> None:
    """Transposed operands: the ratio to cuBLAS, as a share of the ratio that the same kernel reaches without."""
    size = 4096
    races = {k: _Race(bench, kernels, (size, size, size), WIDE, kinds=k) for k in ("NN", "NT", "TN", "TT")}
    times = bench.race(*(call for race in races.values() for call in (race.ours, race.theirs)))
    ratios = {k: times[2 * i + 1] / times[2 * i] for i, k in enumerate(races)}
    for i, kind in enumerate(races):
        if kind != "NN":
            share = ratios[kind] / ratios["NN"]
            figure = f"{ratios[kind]:.3f} of cuBLAS"
            bench.row("layouts", f"{kind} {size}^3", times[2 * i], times[2 * i + 1], "ms", figure, share, 0.97, "NN")


def seed_rows(bench, kernels) -> None:
    """The tiles of the documents as they are written, against the same tiles with a tuned schedule."""
    size = 4096
    for tile in SEED_TILES:
        race = _Race(bench, kernels, (size, size, size), tile)

        @tilelang.autotune(configs=[{"pass_configs": switches} for switches in _SCHEDULES])
        @tilelang.jit(target="cuda")
        def matmul(tile=tile):
            return kernels.gemm_program(size, size, size, **_named(tile))

        tuned = matmul()
        print(f"{tile}: {tuned.config}")
        bench.compare(
            "seeds", f"{size}^3 {tile[0]}x{tile[1]}x{tile[2]} against tuned", race.ours,
            lambda r=race, k=tuned: k(r.a, r.b, r.d), 2 * size**3, "GFLOP/s", 0.95,
        )  # fmt: skip


def tune_rows(bench, kernels) -> None:
    """How long the tuner takes for all that it would try, and how good its choice is."""
    size = 4096

    @tilelang.autotune(configs=gemm_configs)
    @tilelang.jit(target="cuda")
    def matmul(M, N, K, block_M=None, block_N=None, block_K=None, num_stages=None, threads=None):
        return kernels.gemm_program(M, N, K, block_M, block_N, block_K, num_stages, threads)

    found = matmul.tune(size, size, size)
    print(found)
    count = len(found.measured) + len(found.rejected)
    bench.row("tune", f"{size}^3, {count} candidates", found.seconds, None, "s", f"{60 / 40 * count:.0f} s allowed",
              60 / 40 * count / found.seconds, 1.0, "60 s for 40")
    race = _Race(bench, kernels, (size, size, size), WIDE)
    name = f"{size}^3, its choice against 128x256x64"
    bench.compare("tune", name, lambda: found.kernel(race.a, race.b, race.c), race.ours, 2 * size**3, "GFLOP/s", 0.95)


def mma_rows(bench, kernels) -> None:
    """The same program by what GPUs before Hopper have."""
    for tile in MMA_TILES:
        _row(bench, kernels, "mma", (4096, 4096, 4096), tile, 0.60, pass_configs=kernels.MMA, panel=8)


def dynamic_rows(bench, kernels) -> None:
    """Symbolic sizes against constant ones."""
    torch = bench.torch
    for what, pass_configs, tiles in (
        ("", None, _named(SEED_TILES[1])),
        ("mma ", kernels.MMA, {**_named(MMA_TILES[0]), "panel": 8}),
    ):
        dynamic = kernels.dynamic_gemm(pass_configs=pass_configs, **tiles)
        for size in (2048, 4096):
            a, b = torch.randn(2, size, size, device="cuda").half()
            c, d = torch.empty(2, size, size, device="cuda").half()
            static = kernels.gemm(size, size, size, pass_configs=pass_configs, **tiles)
            static(a, b, d)
            dynamic(a, b, c)
            close(c, d, 1e-6, "dynamic GEMM")
            bench.compare("dynamic", f"{what}{size}^3 f16 against static", lambda: dynamic(a, b, c),
                          lambda: static(a, b, d), 2 * size**3, "GFLOP/s", 0.95)


PRODUCTS = {
    "gemm": gemm_rows, "bfloat16": bfloat16_rows, "float8": float8_rows, "split": split_rows, "uneven": uneven_rows,
    "layouts": layout_rows, "seeds": seed_rows, "tune": tune_rows, "mma": mma_rows, "dynamic": dynamic_rows,
}  # fmt: skip
