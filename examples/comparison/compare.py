"""One GEMM in TileLang, in Triton and in CUDA: how many lines each takes, and on a GPU how fast they are beside cuBLAS.

All sides run in one process, in interleaved rounds in random order, on random data and with a cold L2 cache; the table
shows medians of device time. Without a GPU only lines are counted. `python compare.py [M,N,K ...]`
"""

import inspect
import random
import statistics
import sys
import textwrap
from pathlib import Path

import tilelang

sys.path.insert(0, str(Path(__file__).resolve().parent))
import gemm_tilelang

SHAPES = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (8192, 8192, 1024))
FLUSH_BYTES = 256 << 20  # several times any L2


def lines(text, comment):
    """Lines that are neither empty nor only a comment."""
    return sum(bool(line.strip()) and not line.strip().startswith(comment) for line in text.splitlines())


def counts():
    """Lines of what a person writes for a kernel and its launch, and of what the compiler made of ours."""
    ours = inspect.getsource(gemm_tilelang.matmul.__wrapped__)
    triton_text = (Path(__file__).parent / "gemm_triton.py").read_text()
    triton_kernel = triton_text[triton_text.index("@triton.jit") : triton_text.index("def matmul")]
    triton_text = triton_text[triton_text.index("NUM_SMS") :]
    hopper = tilelang.lower(gemm_tilelang.matmul.get_tir(4096, 4096, 4096), target={"kind": "cuda", "arch": "sm_90a"})
    cuda = hopper.kernel_source
    kernel = cuda[cuda.index('extern "C" __global__') :]
    return {
        "TileLang": lines(textwrap.dedent(ours), "#"),
        "Triton, the kernel": lines(triton_kernel, "#"),
        "Triton, with its launch": lines(triton_text, "#"),
        "CUDA, the kernel": lines(kernel, "//"),
        "CUDA, with what it calls": lines(cuda, "//"),
    }


def recorded(torch, call):
    """A call as a graph, so that what the host does for it is not measured."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def measure(torch, sides, flush, rounds, repeats):
    """Median milliseconds of each side."""
    samples = {name: [] for name in sides}
    for _ in range(rounds):
        for name in random.sample(list(sides), len(sides)):
            events = []
            for number in range(repeats + 3):
                flush.zero_()
                start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                sides[name]()
                stop.record()
                if number >= 3:  # the first ones bring the clock to where this side has it
                    events.append((start, stop))
            torch.cuda.synchronize()
            samples[name].append(statistics.median(a.elapsed_time(b) for a, b in events))
    return {name: statistics.median(of) for name, of in samples.items()}


def compare(torch, shape, rounds, repeats):
    """A line of the table; every side must agree with cuBLAS."""
    M, N, K = shape
    a, b = torch.randn(M, K, device="cuda").half(), torch.randn(K, N, device="cuda").half()
    results = {name: torch.full((M, N), float("nan"), device="cuda").half() for name in ("cuBLAS", "ours", "Triton")}
    kernel = gemm_tilelang.matmul(M, N, K)
    sides = {
        "cuBLAS": lambda: torch.matmul(a, b, out=results["cuBLAS"]),
        "ours": lambda: kernel(a, b, results["ours"]),
    }
    try:
        import gemm_triton
    except ImportError:
        print("Triton is not installed")
    else:
        sides["Triton"] = lambda: gemm_triton.matmul(a, b, results["Triton"])
    for name, call in sides.items():
        call()
        torch.testing.assert_close(results[name], results["cuBLAS"], rtol=1e-2, atol=0.25)
    sides = {name: recorded(torch, call) for name, call in sides.items()}
    took = measure(torch, sides, torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda"), rounds, repeats)
    cells = [f"{name} {ms * 1e3:8.1f} us {took['cuBLAS'] / ms:6.3f}" for name, ms in took.items()]
    print(f"{M} x {N} x {K}: " + ", ".join(cells), flush=True)


def main(*, shapes=SHAPES, rounds=7, repeats=10):
    for name, count in counts().items():
        print(f"{name:<26}{count:>6} lines")
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        print("no GPU: nothing is measured")
        return
    print("medians, and how many times as fast as cuBLAS")
    for shape in shapes:
        compare(torch, shape, rounds, repeats)


if __name__ == "__main__":
    main(shapes=[tuple(map(int, argument.split(","))) for argument in sys.argv[1:]] or SHAPES)
