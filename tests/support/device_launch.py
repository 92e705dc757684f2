"""Runs small CUDA sources on the GPU through the driver, for tests that compare it with meanings."""

from functools import cache

import numpy as np
import pytest

try:
    from cuda.bindings import driver, nvrtc

    GPUS = driver.cuInit(0)[0] == driver.CUresult.CUDA_SUCCESS and driver.cuDeviceGetCount()[1] or 0
except (ImportError, RuntimeError):
    GPUS = 0

needs_gpu = pytest.mark.skipif(GPUS == 0, reason="needs an NVIDIA GPU")
# of tests for results: the NVRTC beside a GPU may add waits to small gemms where that of these requirements does not
SLOW_BY_OTHER_COMPILERS = "ignore:.*matrix instructions that wait:tilelang.errors.ProgramWarning"


def _ask(answer):
    status, *values = answer
    assert int(status) == 0, status
    return values[0] if len(values) == 1 else values


@cache
def _device():
    device = _ask(driver.cuDeviceGet(0))
    _ask(driver.cuCtxSetCurrent(_ask(driver.cuDevicePrimaryCtxRetain(device))))
    attributes = driver.CUdevice_attribute
    major, minor = (
        _ask(driver.cuDeviceGetAttribute(attribute, device))
        for attribute in (
            attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
    )
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


def architecture():
    """The name of the GPU's architecture."""
    return _device()


class Module:
    """A compiled source, whose kernels are called by name with NumPy arrays, which they may change."""

    def __init__(self, source):
        name = architecture()
        program = _ask(nvrtc.nvrtcCreateProgram(source.encode(), b"test.cu", 0, [], []))
        (status,) = nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture={name}".encode()])
        if int(status):
            log = b" " * _ask(nvrtc.nvrtcGetProgramLogSize(program))
            nvrtc.nvrtcGetProgramLog(program, log)
            pytest.fail(log.decode()[:4000])
        cubin = b" " * _ask(nvrtc.nvrtcGetCUBINSize(program))
        _ask(nvrtc.nvrtcGetCUBIN(program, cubin))
        self._module = _ask(driver.cuModuleLoadData(cubin))

    def run(self, name, *arrays, threads=32, blocks=1, shared=0):
        """Calls a kernel that takes a pointer per array; `shared` bytes of memory are added for each block."""
        kernel = _ask(driver.cuModuleGetFunction(self._module, name.encode()))
        most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _ask(driver.cuFuncSetAttribute(kernel, most, shared))
        memory = [_ask(driver.cuMemAlloc(max(array.nbytes, 16))) for array in arrays]
        try:
            for place, array in zip(memory, arrays, strict=True):
                _ask(driver.cuMemcpyHtoD(place, array.ctypes.data, array.nbytes))
            addresses = [np.array([int(place)], np.uint64) for place in memory]
            pointers = np.array([address.ctypes.data for address in addresses], np.uint64)
            _ask(driver.cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, shared, 0, pointers.ctypes.data, 0))
            _ask(driver.cuCtxSynchronize())
            for place, array in zip(memory, arrays, strict=True):
                _ask(driver.cuMemcpyDtoH(array.ctypes.data, place, array.nbytes))
        finally:
            for place in memory:
                driver.cuMemFree(place)

    def run_with_maps(self, name, tensors, arrays, encode, *, shared, threads=32):
        """Calls a kernel that takes a map per tensor and then a pointer per array, with so much shared memory.

        `encode(array, address)` gives the bytes of the map of a tensor at an address.
        """
        kernel = _ask(driver.cuModuleGetFunction(self._module, name.encode()))
        everything = [*tensors, *arrays]
        memory = [_ask(driver.cuMemAlloc(max(array.nbytes, 16))) for array in everything]
        try:
            for place, array in zip(memory, everything, strict=True):
                _ask(driver.cuMemcpyHtoD(place, array.ctypes.data, array.nbytes))
            maps = [encode(array, int(place)) for array, place in zip(tensors, memory, strict=False)]
            addresses = [np.array([int(place)], np.uint64) for place in memory[len(tensors) :]]
            values = [*(np.frombuffer(made, np.uint8) for made in maps), *addresses]
            packed = np.array([value.ctypes.data for value in values], np.uint64)
            _ask(driver.cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, shared, 0, packed.ctypes.data, 0))
            _ask(driver.cuCtxSynchronize())
            for place, array in zip(memory, everything, strict=True):
                _ask(driver.cuMemcpyDtoH(array.ctypes.data, place, array.nbytes))
        finally:
            for place in memory:
                driver.cuMemFree(place)
