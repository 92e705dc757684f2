"""The text that packs vectors and takes lanes: compiled for GPUs, and run as C++ by `tests/language/test_vectors.py`."""

from device_text import compile_cuda, cuda_source, needs_cuda_compiler

from tilelang.isa.common.vectors import vectors
from tilelang.targets.nvidia.isa.types import CUDA_TYPES, INTEGERS


@needs_cuda_compiler
def test_vectors_of_all_kinds_of_lanes_compile():
    pack, lane = vectors("__device__ __forceinline__")
    functions = [
        "__global__ void swap(uint32_t* x) {"
        " *x = tl_pack<uint32_t, half_t>(tl_lane<half_t>(*x, 1), tl_lane<half_t>(*x, 0)); }",
        "__global__ void ints(uint4* x, int32_t y) { *x = tl_pack<uint4, int32_t>(y, 1, 2, tl_lane<int32_t>(*x, y)); }",
        "__global__ void bytes(uint2* x) {"
        " *x = tl_pack<uint2, uint8_t>((uint8_t)1, 2, 3, 4, 5, 6, 7, tl_lane<uint8_t>(*x, 7)); }",
    ]
    source = cuda_source([INTEGERS, CUDA_TYPES["float16"].helper, pack, lane], functions)
    assert compile_cuda(source, "sm_75")
