"""Compiled programs, executed on every machine by AMD's own definitions of its instructions, as the reference has them.

Sums are of small integers, and exact; attention is within rounding.
"""

import dataclasses

import numpy as np
import pytest
from amd_execution import execute
from amd_programs import attention, gemm, row_sums, transpose
from gathered_rows import arguments as gathering
from gathered_rows import gathered
from harness import assert_same, run_reference_on_copies
from hip_kernels import ARCHES, needs_clang

import tilelang
import tilelang.language as T
from tilelang.targets.amd.machines import MACHINES
from tilelang.targets.amd.runtime.device_code import HipCode, build

pytestmark = needs_clang


def compiled(func, arch) -> HipCode:
    return tilelang.compile(func, target={"kind": "hip", "arch": arch})._runner.code


def arguments(func, scale=1):
    rng = np.random.default_rng(0)
    shapes = [(param.buffer.static_shape, param.buffer.dtype.numpy) for param in func.params]
    return [(rng.integers(-4, 5, shape) * scale).astype(dtype) for shape, dtype in shapes]


def check(func, arch, *, scale=1, rtol=0.0, atol=0.0):
    arrays = arguments(func, scale)
    expected = run_reference_on_copies(func, arrays)
    execute(compiled(func, arch), arrays)
    for want, got in zip(expected, arrays, strict=True):
        assert_same(want, got, rtol, atol)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("arch", ARCHES)
def test_gemm(arch):
    check(gemm(96, block=32), arch)


# gfx90a has other numbers for some matrix instructions than the machines whose tables there are
DTYPES = [("bfloat16", ARCHES[1:]), ("int8", ARCHES[1:]), ("int4", ARCHES[3:]), ("float32", ARCHES[:3]), ("float64", ARCHES[:3]),
          ("float8_e4m3fnuz", ["gfx942"]), ("float8_e5m2", ["gfx950"])]  # fmt: skip


@pytest.mark.slow(every=28)
@pytest.mark.parametrize(("dtype", "arch"), [(dtype, arch) for dtype, arches in DTYPES for arch in arches])
def test_dtypes(dtype, arch):
    check(gemm(64, block=32, dtype=dtype, accum={"int8": "int32", "int4": "int32", "float64": "float64"}.get(dtype, "float32")), arch)


@pytest.mark.slow(every=56)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("stages", [0, 3])
def test_ragged_edges_and_stages(arch, stages):
    check(gemm(120, block=64, rows=100, stages=stages), arch)


@pytest.mark.parametrize(("k", "rows", "stages"), [(256, 128, 2), (200, 100, 3)])
def test_several_loads_to_lds_from_one_address_in_it_on(k, rows, stages):
    """Of tiles whose rows lie apart, with lanes that load zeros in each of them, and an iteration that loads nothing."""
    func = gemm(k, block=128, depth=64, rows=rows, stages=stages)
    assert compiled(func, "gfx950").source.text.count("tl_buffer_to_lds_16x4(") == 3
    check(func, "gfx950")


@pytest.mark.slow(every=28)
@pytest.mark.parametrize("arch", ARCHES)
def test_attention(arch):
    check(attention(128), arch, scale=0.25, rtol=2e-3, atol=2e-3)


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("arch", ["gfx1100", "gfx1151"])
def test_tiles_that_take_turns_in_registers(arch):
    """Keys and values, of which the last tiles are ragged."""
    func = attention(168, dim=128, held=True)
    assert "tl_buffer_load_if<" in compiled(func, arch).source.text
    check(func, arch, scale=0.25, rtol=2e-3, atol=2e-3)


@pytest.mark.slow(every=28)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("func", [row_sums(1024), transpose(64)])
def test_exchanges_between_lanes_and_through_lds(func, arch):
    check(func, arch)


@pytest.mark.slow(every=28)
@pytest.mark.parametrize("arch", ARCHES)
def test_lanes_at_every_distance(arch):
    lanes = MACHINES[arch].warp_size
    offsets = [offset for offset in (1, 2, 3, 4, 5, 8, 16, 32) if offset < lanes]

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((len(offsets), 64), "int32")):
        with T.Kernel(1, threads=64):
            thread = T.get_thread_binding()
            for row, offset in enumerate(offsets):
                B[row, thread] = T.shfl_xor(A[thread], offset, width=lanes)

    arrays = [np.arange(64, dtype=np.int32), np.zeros((len(offsets), 64), np.int32)]
    execute(compiled(main, arch), arrays)
    np.testing.assert_array_equal(np.arange(64) ^ np.array(offsets)[:, None], arrays[1])


def test_a_wrong_swizzle_is_found():
    func = transpose(64)
    code = compiled(func, "gfx1100")
    wrong = code.source.text.replace("(thread & 15) ^ (thread >> 6)", "(thread & 15) ^ (thread >> 5)", 1)
    assert wrong != code.source.text
    arrays = arguments(func)
    execute(build(dataclasses.replace(code.source, text=wrong), "gfx1100", "clang"), arrays)
    assert not np.array_equal(arrays[0].T, arrays[1])


def test_an_address_beyond_all_arrays_is_found():
    func = transpose(64)
    code = compiled(func, "gfx942")
    wrong = code.source.text.replace("= *(const uint32x4_t*)&A[", "= *(const uint32x4_t*)&A[4096 + ", 1)
    assert wrong != code.source.text
    with pytest.raises(AssertionError, match="GLOBAL_LOAD.*beyond all arrays"):
        execute(build(dataclasses.replace(code.source, text=wrong), "gfx942", "clang"), arguments(func))


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_rows_that_are_gathered_ahead(arch):
    """Some indices are out of bounds, whose rows are zeros."""
    func = gathered("row", 2, 4, threads=64)
    arrays = list(gathering(4))
    expected = run_reference_on_copies(func, arrays)
    execute(compiled(func, arch), arrays)
    np.testing.assert_array_equal(expected[3], arrays[3])
