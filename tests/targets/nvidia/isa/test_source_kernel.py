"""The kernels that a CUDA text defines: their names, parameters and linkage."""

import pytest
from device_text import compile_cuda, needs_cuda_compiler

from tilelang.errors import NoLowering, ProgramValueError
from tilelang.targets.nvidia.isa.source_kernel import entries_of, source_kernel

TEXT = """
// __global__ void hidden(int n) {}
/* __global__ void hidden_too(int n); */
__device__ const char* words = "__global__ void in_a_string()";
struct pair { int a, b; };
extern "C" __global__ void plain(float* A, int n) { A[0] = n; }
__global__ void __launch_bounds__(128, (1 + 1)) bounded(const pair (&p)[2], int n) {}
template <typename T, int N> __global__ void made(T* x) { x[N] = 0; }
extern "C" {
__global__ static void inside(void) {}
}
void __global__ swapped() {}
"""


def test_kernels_are_found_with_their_parameters():
    found = [(entry.name, entry.parameters) for entry in entries_of(TEXT)]
    assert [("plain", 2), ("bounded", 2), ("made", 1), ("inside", 0), ("swapped", 0)] == found


@needs_cuda_compiler
def test_kernels_get_plain_names():
    text = "__global__ void first(int* x) { *x = 1; }\nextern \"C\" __global__ void second(int* x) { *x = 2; }\n"
    kernel = source_kernel(text, "first", 1)
    assert 2 == kernel.text.count('extern "C"')
    assert b"\0first\0" in compile_cuda(kernel.text, "sm_90a")
    assert kernel.text == source_kernel(text, "second", 2).text


def test_mistakes():
    with pytest.raises(ProgramValueError, match="no kernel 'main'. Available entries: plain, bounded, made"):
        source_kernel(TEXT, "main", 2)
    with pytest.raises(ProgramValueError, match="no kernel 'main'. it defines no __global__ function"):
        source_kernel("int main() {}", "main", 2)
    with pytest.raises(ProgramValueError, match="'plain' takes 2 parameters, but is launched with 1 arguments"):
        source_kernel(TEXT, "plain", 1)
    with pytest.raises(NoLowering, match="a kernel that is only available as CUDA source cannot be simulated"):
        source_kernel(TEXT, "inside", 0).simulate(None)
