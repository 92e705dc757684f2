import re

import numpy as np
import pytest
from device_text import ARCHITECTURES, compile_cuda, cuda_source, needs_cuda_compiler
from warp_alone import WarpAlone, run

from tilelang.errors import NoLowering
from tilelang.isa.instruction import Effect
from tilelang.isa.simulated import TensorMapView
from tilelang.targets.nvidia.isa.async_units import TMA_LOAD, TMA_STORE
from tilelang.targets.nvidia.isa.catalogue import instructions
from tilelang.targets.nvidia.isa.tma import (
    TMA_PREFETCH_MAP,
    TMA_STORE_COMMIT,
    tma_load,
    tma_reduce,
    tma_store_wait,
)
from tilelang.targets.nvidia.isa.types import INTEGERS
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.target import Target

FAMILIES = ("tma_", "bulk_")
RECORDS = {name: record for name, record in instructions().items() if name.startswith(FAMILIES)}


def test_there_are_no_other_forms():
    with pytest.raises(NoLowering, match="1 to 5 dimensions, not 6"):
        tma_load(6)
    with pytest.raises(NoLowering, match="maps of pixels have 4 dimensions here, not 3"):
        tma_load(3, pixels=True)
    with pytest.raises(NoLowering, match="not by 'mul'"):
        tma_reduce(2, "mul")
    with pytest.raises(NoLowering, match="-1 groups"):
        tma_store_wait(-1)


def test_prefetching_changes_nothing():
    warp = WarpAlone()
    view = TensorMapView(warp.buffer("float16", np.zeros(64)).buffer, (64,), (), (8,), 0)
    assert run(TMA_PREFETCH_MAP, warp, view) is None and not warp.asked


def test_loads_and_stores_have_queues_of_their_own():
    assert {TMA_LOAD} == {r.async_unit for n, r in RECORDS.items() if "load" in n}
    assert {TMA_STORE} == {r.async_unit for n, r in RECORDS.items() if "store" in n or "reduce" in n}
    assert (Effect.COMMIT, Effect.WAIT) == (TMA_STORE_COMMIT.effect, tma_store_wait(1).effect)
    assert all(Feature.TMA in record.needs for record in RECORDS.values())
    assert Feature.CLUSTER in tma_load(2, multicast=True).needs


def operands(name: str) -> list[str]:
    """Arguments of a call, in names of the kernel below."""
    rank, hint = re.search(r"_(\d)d", name), ["policy"] * name.endswith("hint")
    places = [f"x + {i}" for i in range(int(rank[1]))] if rank else []
    if name.startswith("tma_load"):
        return ["tile", "map", "bar", *places, *["x", "x"] * ("im2col" in name), *["mask"] * ("multicast" in name), *hint]
    if rank:
        return ["map", "tile", *places, *hint]
    if name.startswith("bulk_load"):
        return ["tile", "run", "x", "bar", *hint]
    if name.startswith("bulk_store"):
        return ["run", "tile", "x", *hint]
    return ["map"] * (name == "tma_prefetch_map")


@needs_cuda_compiler
@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if Target("cuda", a).has(Feature.TMA)])
def test_every_text_assembles(architecture):
    target = Target("cuda", architecture)
    records = {name: record for name, record in RECORDS.items() if target.has(record.needs)}
    calls = {name: record.texts["cuda"].format(*operands(name)) for name, record in records.items()}
    lines = [f"policy += {call};" if name.startswith("l2") else f"{call};" for name, call in calls.items()]
    source = (
        'extern "C" __global__ void k(const __grid_constant__ tl_tensor_map map, half_t* run, int x, int mask) {'
        "__shared__ alignas(128) half_t tile[64]; __shared__ uint64_t bar[1]; uint64_t policy = 0;" + " ".join(lines) + "}"
    )
    source = "struct half_t { unsigned short bits; };\n" + source
    helpers = [INTEGERS, *(record.helpers["cuda"] for record in records.values())]
    assert compile_cuda(cuda_source(helpers, [source]), architecture)
