import numpy as np
import pytest
from warp_alone import WarpAlone, run

from tilelang.dtypes import as_dtype
from tilelang.errors import NoLowering
from tilelang.targets.nvidia.isa.memory import CacheHint, load, prefetch, store

LANES = np.arange(32)
KEPT = LANES != 2


@pytest.mark.parametrize("name", ["float16", "float32x4", "float16x8", "bfloat16x2", "uint8", "int4x4", "float64"])
def test_what_is_stored_is_loaded_and_what_is_not_kept_is_zero(name):
    dtype, warp = as_dtype(name), WarpAlone()
    values = (np.arange(32 * dtype.lanes) % 7 + 1).reshape(32, dtype.lanes).astype(dtype.numpy)
    memory = warp.buffer(str(dtype).split("x")[0], np.zeros(32 * dtype.lanes))
    run(store(dtype), warp, memory + LANES * dtype.lanes, values if dtype.lanes > 1 else values[:, 0], KEPT)
    values[2] = 0
    assert values.ravel().tolist() == warp.values(memory).tolist()
    everything = np.ones(32 * dtype.lanes)
    warp.values(memory)[:] = everything.astype(dtype.numpy)
    loaded = run(load(dtype, CacheHint.EVICT_FIRST, read_only=True), warp, memory + LANES * dtype.lanes, KEPT)
    expected = np.where(KEPT[:, None], everything.reshape(32, -1), 0)
    assert (32,) + ((dtype.lanes,) if dtype.lanes > 1 else ()) == loaded.shape
    assert expected.ravel().tolist() == loaded.astype(np.float64).ravel().tolist()


def test_hints_stand_where_the_instruction_has_them():
    def words(record):
        return record.helpers["cuda"].text

    dtype = as_dtype("float32x4")
    assert "ld.global.nc.L1::no_allocate.v4.u32" in words(load(dtype, CacheHint.NO_ALLOCATE, read_only=True))
    assert "ld.global.cg.v4.u32" in words(load(dtype, CacheHint.L2_ONLY))
    assert "st.global.cs.v4.u32" in words(store(dtype, CacheHint.STREAMING))
    assert "st.global.L1::evict_last.v4.u32" in words(store(dtype, CacheHint.EVICT_LAST))


def test_a_prefetch_changes_nothing():
    warp = WarpAlone()
    memory = warp.buffer("float32", np.arange(32))
    assert run(prefetch("L2"), warp, memory, True) is None
    with pytest.raises(NoLowering, match="no cache 'L3'"):
        prefetch("L3")


def test_sizes_that_no_access_has_are_refused():
    with pytest.raises(NoLowering, match="no access of 32 bytes, which float32x8 has"):
        load(as_dtype("float32x8"))
    with pytest.raises(NoLowering, match="no access of 6 bytes"):
        store(as_dtype("float16x3"))
