"""`T.CUDASourceCodeKernel`: what is launched with which arguments, and where it cannot be."""

import re

import numpy as np
import pytest
from fake_cuda import FakeCuda, FakeTensor, FakeTorch, needs_nvrtc, torch  # noqa: F401  a fixture

import tilelang
import tilelang.language as T
from tilelang.errors import NoLowering, ProgramError
from tilelang.ir.specialization import Specialization
from tilelang.targets.gpu.runtime.device_call import DeviceCaller
from tilelang.targets.gpu.runtime.failures import FailureBoard
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver

SOURCE = """
__global__ void __launch_bounds__(256) rows(float* A, double* B, int k, int m, int n) { A[0] = TWO; }
extern "C" __global__ void other(float* A, double* B) {}
"""


def make(source=SOURCE, **options):
    M, N, K = T.dynamic("M, N, K")

    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), s: T.float32, B: T.Tensor((K, N), "float64"), last: T.int64, t: T.int32):
        T.CUDASourceCodeKernel(
            T.ceildiv(K, 128), M, threads=(128, 2), source_code_or_path=source, prelude="#define TWO 2\n",
            **{"entry_name": "rows", **options},
        )  # fmt: skip
        with T.Kernel(t + last) as bx:
            A[0, 0] = 1
        T.CUDASourceCodeKernel(last, source_code_or_path=SOURCE, entry_name="other")

    return main


@needs_nvrtc
def test_it_is_launched_with_tensors_then_sizes_in_order_of_use(torch: FakeTorch) -> None:
    kernel = tilelang.compile(make(), target={"kind": "cuda", "arch": "sm_90a"})
    assert 1 == kernel.get_kernel_source().count("void __launch_bounds__(256) rows(")
    assert kernel.get_kernel_source().index("#define TWO") < kernel.get_kernel_source().index("A[0] = TWO")
    cuda, compile_variant = FakeCuda(), kernel._runner._variant
    cuda.arities = {one.name: len(one.arguments) for one in compile_variant(Specialization()).launches}
    caller = DeviceCaller(kernel.signature, "sm_90a", compile_variant, lambda: CudaDriver(cuda), FailureBoard())
    a, b = FakeTensor((256, 384), torch.float32), FakeTensor((512, 384), torch.float64)
    caller.call(a, 1.5, b, 3, 4)
    first, middle, last = cuda.launches
    assert ("rows", (4, 256, 1), (128, 2, 1), 0) == (first.kernel, first.grid, first.threads, first.shared_bytes)
    assert [a.pointer, b.pointer, 512, 256, 384] == first.values("QQiii")
    assert ("main_kernel", (7, 1, 1)) == (middle.kernel, middle.grid)
    assert ("other", (3, 1, 1), (128, 1, 1)) == (last.kernel, last.grid, last.threads)
    assert [a.pointer, b.pointer, 3, 256, 384, 512] == last.values("QQqiii")


def test_the_text_may_be_a_file_and_decides_the_program(tmp_path) -> None:
    sources = set()
    for number in (1, 2):
        path = tmp_path / f"kernel{number}.cu"
        path.write_text(SOURCE.replace("TWO", str(number)))
        for name in (path, str(path)):
            artifact = tilelang.lower(make(name), target={"kind": "cuda", "arch": "sm_90a"})
            assert f"A[0] = {number};" in artifact.kernel_source
            sources.add(artifact.kernel_source)
    assert 2 == len(sources)


@pytest.mark.parametrize(
    "backend",
    [
        {"target": "cpu"},
        {"execution_backend": "reference"},
        {"execution_backend": "simulator", "target": {"kind": "cuda", "arch": "sm_90a"}},
    ],
    ids=["cpu", "reference", "simulator"],
)
def test_only_a_gpu_runs_it(backend) -> None:
    with pytest.raises(NoLowering, match="T.CUDASourceCodeKernel"):
        tilelang.compile(make(), **backend)(np.zeros((2, 3), "float32"), 1.0, np.zeros((4, 3)), 1, 1)


@pytest.mark.parametrize(
    ("source", "options", "kind", "message"),
    [
        (SOURCE, {"entry_name": "missing"}, ValueError, "Available entries: rows, other"),
        (SOURCE, {"entry_name": ""}, ValueError, "T.CUDASourceCodeKernel: entry_name is empty"),
        ("  ", {}, ValueError, "T.CUDASourceCodeKernel: the source is empty"),
        ("no/such/file", {}, FileNotFoundError, "T.CUDASourceCodeKernel: there is no file 'no/such/file'"),
        ("missing.cuh", {}, FileNotFoundError, "T.CUDASourceCodeKernel: there is no file 'missing.cuh'"),
        ("int x;", {}, ValueError, "it defines no __global__ function"),
        (7, {}, TypeError, "T.CUDASourceCodeKernel: expected text or a path, got int"),
        (SOURCE.replace("n)", "n, int x)"), {}, ValueError, "'rows' takes 6 parameters"),
    ],
)
def test_mistakes(source, options, kind, message) -> None:
    with pytest.raises(kind, match=re.escape(message)) as caught:
        make(source, **options)
    assert isinstance(caught.value, ProgramError)
