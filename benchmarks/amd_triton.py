"""Compiles the kernels of `amd_code.py` by Triton for AMD's GPUs, without one: writes their assembly to a folder.

Run by an interpreter that has Triton: `python benchmarks/amd_triton.py FOLDER`; nothing else uses it.
"""

import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGETS = {"gfx942": 64, "gfx950": 64, "gfx1100": 32}  # and lanes of a wave


@triton.jit
def gemm(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    a = A + rows[:, None] * K + depth[None, :]
    b = B + depth[:, None] * N + columns[None, :]
    sums = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        sums = tl.dot(tl.load(a), tl.load(b), sums)
        a += BK
        b += BK * N
    tl.store(C + rows[:, None] * N + columns[None, :], sums.to(tl.float16))


@triton.jit
def attention(Q, K, V, O, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    start = tl.program_id(1) * length
    rows = start + tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.arange(0, D)
    q = tl.load(Q + rows[:, None] * D + columns[None, :])
    largest = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    out = tl.zeros((BM, D), tl.float32)
    for first in range(0, length, BN):
        keys = start + first + tl.arange(0, BN)
        k = tl.load(K + keys[None, :] * D + columns[:, None])
        scores = tl.dot(q, k) * scale
        before, largest = largest, tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp2(scores - largest[:, None])
        correction = tl.exp2(before - largest)
        total = total * correction + tl.sum(weights, 1)
        v = tl.load(V + keys[:, None] * D + columns[None, :])
        out = tl.dot(weights.to(tl.float16), v, out * correction[:, None])
    tl.store(O + rows[:, None] * D + columns[None, :], (out / total[:, None]).to(tl.float16))


GEMM = dict.fromkeys("ABC", "*fp16") | dict.fromkeys("MNK", "i32") | dict.fromkeys(("BM", "BN", "BK"), "constexpr")
ATTENTION = dict.fromkeys("QKVO", "*fp16") | {"length": "i32", "scale": "fp32"}
ATTENTION |= dict.fromkeys(("BM", "BN", "D"), "constexpr")
KERNELS = {
    "gemm 128x128x64": (gemm, GEMM, {"BM": 128, "BN": 128, "BK": 64}, 4),
    "gemm 256x256x64": (gemm, GEMM, {"BM": 256, "BN": 256, "BK": 64}, 8),
    "attention D=128": (attention, ATTENTION, {"BN": 64, "D": 128}, 4),
}


def main(folder: Path) -> None:
    for arch, lanes in TARGETS.items():
        for name, (kernel, signature, constants, warps) in KERNELS.items():
            if kernel is attention:
                constants = {**constants, "BM": 2 * lanes}
            kinds = enumerate(signature.values())
            aligned = {(place,): [["tt.divisibility", 16]] for place, kind in kinds if kind in ("*fp16", "i32")}
            source = ASTSource(kernel, signature, constexprs=constants, attrs=aligned)
            try:
                made = triton.compile(
                    source, target=GPUTarget("hip", arch, lanes), options={"num_warps": warps, "num_stages": 2}
                )
            except Exception as error:
                (folder / f"{name} {arch}.error").write_text(f"{type(error).__name__}: {error}")
                continue
            (folder / f"{name} {arch}.s").write_text(f"; shared {made.metadata.shared}\n{made.asm['amdgcn']}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
