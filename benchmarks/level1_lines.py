"""Counts lines: those of a function marked `@tilelang.compute`, and those of the Level 2 program that it stands for.

Blank lines, comments and docstrings do not count, nor do imports. Run as `python benchmarks/level1_lines.py`, without a
device; `level1.py` keeps the rows with its results.
"""

import ast
import inspect
import statistics
import textwrap

import level1_computations as ours

import tilelang
import tilelang.language as T

GOAL = 1 / 3


def _half(*shape: int) -> T.Tensor:
    return T.Tensor(shape, "float16")


HEADS, DOCUMENTS = _half(4, 32, 4096, 128), T.Tensor((4096,), "int32")
# name: computation, arguments, Python values
PROGRAMS = {
    "matmul": (ours.matmul, [_half(4096, 4096), _half(4096, 4096)], {}),
    "attention": (ours.attention, [HEADS, HEADS, HEADS], {"documents": DOCUMENTS, "causal": True}),
    "decoding": (ours.decoding, [_half(16, 32, 1, 128), _half(16, 8, 8192, 128), _half(16, 8, 8192, 128)], {}),
    "softmax": (ours.softmax, [_half(16384, 4096)], {}),
    "log-softmax": (ours.log_softmax, [_half(8192, 32768)], {}),
    "LayerNorm": (ours.layer_norm, [_half(16384, 4096), _half(4096), _half(4096)], {}),
    "RMSNorm with residual": (ours.rms_norm, [_half(16384, 4096), _half(16384, 4096), _half(4096)], {}),
    "cross entropy": (ours.cross_entropy, [_half(4096, 128256), T.Tensor((4096,), "int32")], {}),
    "GELU behind matmul": (ours.gelu_matmul, [_half(4096, 4096), _half(4096, 16384), _half(16384)], {}),
    "gated MLP": (
        ours.gated_mlp, [_half(4096, 4096), _half(4096, 14336), _half(4096, 14336), _half(14336, 4096)], {},
    ),
    "batch statistics": (ours.batch_statistics, [_half(64, 256, 56, 56)], {}),
    "int8 quantization, matmul": (
        ours.quantized_matmul, [_half(4096, 4096), T.Tensor((4096, 4096), "int8"), T.Tensor((4096,), "float32")], {},
    ),
    "k-means": (ours.nearest, [_half(131072, 128), _half(1024, 128)], {}),
    "RoPE": (ours.rope, [HEADS, _half(4096, 128), _half(4096, 128)], {}),
    "MoE router": (ours.router, [_half(16384, 4096), _half(4096, 64)], {}),
}  # fmt: skip


def lines_of(source: str) -> int:
    """The lines of code of a module or a function."""
    tree = ast.parse(textwrap.dedent(source))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            skipped.update(range(node.lineno, node.end_lineno + 1))
    lines = enumerate(textwrap.dedent(source).splitlines(), 1)
    return sum(1 for number, line in lines if number not in skipped and line.strip() and line.strip()[0] != "#")


def counted() -> list[dict[str, object]]:
    """A row for each computation: its lines, those of its program, and their ratio."""
    rows = []
    for name, (computation, arguments, values) in PROGRAMS.items():
        mine = lines_of(inspect.getsource(computation.function))
        on_device = tilelang.compute(target={"kind": "cuda", "arch": "sm_90a"})(computation.function)
        level2 = lines_of(on_device.program(*arguments, **values))
        rows.append({"name": name, "ours": mine, "level 2": level2, "ratio": mine / level2})
    return rows


def main() -> None:
    rows = counted()
    for row in rows:
        print(f"{row['name']:<30}{row['ours']:4} lines of {row['level 2']:4}{row['ratio']:8.3f}")
    mean = statistics.geometric_mean([row["ratio"] for row in rows])
    most = max(row["ratio"] for row in rows)
    print(f"geomean {mean:.3f}, most {most:.3f} of {GOAL:.3f}")


if __name__ == "__main__":
    main()
