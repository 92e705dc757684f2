import numpy as np
import pytest
from cpp import PLAIN, call, compile_functions, needs_compiler
from device_text import ARCHITECTURES, HOST, compile_cuda, cuda_source, needs_cuda_compiler

from tilelang.dtypes import SCALARS
from tilelang.ir.scalar import BinaryOp, data_binary
from tilelang.targets.cpu.codegen.cpp_helpers import HELPERS as CPP_HELPERS
from tilelang.targets.nvidia.isa.arithmetic import HELPERS

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64")
FLOATS = ("float32", "float64")
ON_INTEGERS = {
    "tl_floordiv": BinaryOp.FLOORDIV,
    "tl_floormod": BinaryOp.FLOORMOD,
    "tl_truncdiv": BinaryOp.TRUNCDIV,
    "tl_truncmod": BinaryOp.TRUNCMOD,
    "tl_min": BinaryOp.MIN,
    "tl_max": BinaryOp.MAX,
    "tl_shl": BinaryOp.SHL,
    "tl_shr": BinaryOp.SHR,
}
ON_FLOATS = {
    "tl_floordiv_float": BinaryOp.FLOORDIV,
    "tl_floormod_float": BinaryOp.FLOORMOD,
    "tl_min": BinaryOp.MIN,
    "tl_max": BinaryOp.MAX,
}
CASES = [(name, dtype) for name in ON_INTEGERS for dtype in INTEGERS] + [
    (name, dtype) for name in ON_FLOATS for dtype in FLOATS
]
C_TYPES = {"float32": "float", "float64": "double"}


def functions(prefix):
    for name, dtype in CASES:
        kind = C_TYPES.get(dtype, f"{dtype}_t")
        body = f"for (int64_t i = 0; i < n; ++i) y[i] = {name}<{kind}>(a[i], b[i]);"
        yield f"{prefix} void {name}_{dtype}(const {kind}* a, const {kind}* b, {kind}* y, int64_t n) {{ {body} }}"


@pytest.fixture(scope="module")
def library():
    return compile_functions([HOST, *HELPERS.values()], functions(""), PLAIN)


@needs_compiler
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_helpers_compute_what_the_reference_computes(library, name, dtype):
    row = SCALARS[dtype]
    if row.is_float:
        some = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.1, 7.0, -3.0, np.inf, -np.inf, np.nan]
        op = ON_FLOATS[name]
    else:
        low, high = row.limits
        some = sorted(
            {n for n in (low, low + 1, -33, -8, -3, -1, 0, 1, 2, 7, 8, 31, 32, 63, 64, high) if low <= n <= high}
        )
        op = ON_INTEGERS[name]
    a, b = (
        np.ascontiguousarray(side.ravel()) for side in np.meshgrid(np.array(some, row.numpy), np.array(some, row.numpy))
    )
    actual = np.zeros(a.shape, row.numpy)
    call(getattr(library, f"{name}_{dtype}"), a, b, actual, a.size)
    np.testing.assert_array_equal(actual, data_binary(op, a, b, row))


@needs_cuda_compiler
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80"])  # where texts differ
def test_helpers_compile(architecture):
    assert architecture in ARCHITECTURES
    assert compile_cuda(cuda_source(HELPERS.values(), functions("__device__")), architecture)


def test_the_cpu_knows_them_by_the_same_names():
    assert sorted(CPP_HELPERS) == sorted(HELPERS)
