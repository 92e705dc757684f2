import numpy as np
import pytest
from device_text import compile_cuda, cuda_source, needs_cuda_compiler
from warp_alone import WarpAlone, run

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.errors import NoLowering
from tilelang.ir.buffer import Scope
from tilelang.isa.instruction import ExecutionScope
from tilelang.targets.nvidia.isa.cluster import (
    CLUSTER_ARRIVE,
    CLUSTER_ARRIVE_RELAXED,
    CLUSTER_RANK,
    CLUSTER_SIZE,
    CLUSTER_WAIT,
    cluster_load,
    cluster_store,
    cluster_store_async,
    mbarrier_arrive_remote,
)
from tilelang.targets.nvidia.isa.mbarrier import (
    MBARRIER_ARRIVE_EXPECT_TX,
    MBARRIER_INIT,
    MBARRIER_TEST_WAIT,
    MBARRIER_WAIT,
)
from tilelang.targets.nvidia.isa.types import INTEGERS, cuda_type
from tilelang.targets.target import Target

LANES = np.arange(32)
ONE = LANES == 0
MOVED = ["int8", "bool", "float16", "bfloat16", "float32", "int64", "float64", "float8_e4m3fn", "float16x2", "float32x4"]


def test_a_block_has_a_rank_among_as_many():
    warp = WarpAlone()
    assert (warp.rank == run(CLUSTER_RANK, warp)).all()
    assert (np.prod(warp.cluster) == run(CLUSTER_SIZE, warp)).all()


def test_arriving_and_waiting_are_two_things():
    warp = WarpAlone()
    for instruction in (CLUSTER_ARRIVE, CLUSTER_ARRIVE_RELAXED, CLUSTER_WAIT):
        run(instruction, warp)
        assert ExecutionScope.CLUSTER is instruction.execution_scope
    assert [("cluster_arrive", True), ("cluster_arrive", False), ("cluster_wait",)] == warp.asked


def test_every_lane_names_a_block_of_its_own():
    warp = WarpAlone()
    s = warp.buffer("float32", np.arange(64), Scope.SHARED)
    value = run(cluster_load(SCALARS["float32"]), warp, s + LANES, LANES % 2 * 3)
    np.testing.assert_array_equal(value, LANES)
    run(cluster_store(SCALARS["float32"]), warp, s + LANES, np.where(LANES < 4, 2, 1), -LANES)
    np.testing.assert_array_equal(warp.values(s)[:32], -LANES)
    assert [0, 3, 1, 2] == [rank for name, rank in warp.asked]


def test_an_arrival_reaches_the_barrier_of_another_block():
    warp = WarpAlone(ONE)
    bar = warp.buffer("uint64", np.zeros(1), Scope.BARRIER)
    run(MBARRIER_INIT, warp, bar, 2)
    for release, passed in ((False, False), (True, True)):
        run(mbarrier_arrive_remote(release=release), warp, bar, 3)
        assert passed == run(MBARRIER_TEST_WAIT, warp, bar, 0)[0]
    assert [3, 3] == [rank for name, *rest in warp.asked if name == "in_block" for rank in rest]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float32x4", "float16x2"])
def test_a_pushed_value_is_counted_by_its_size(dtype):
    kind = as_dtype(dtype)
    warp = WarpAlone(ONE)
    s = warp.buffer(dtype if kind.lanes == 1 else dtype.partition("x")[0], np.zeros(8), Scope.SHARED)
    bar = warp.buffer("uint64", np.zeros(1), Scope.BARRIER)
    run(MBARRIER_INIT, warp, bar, 1)
    run(MBARRIER_ARRIVE_EXPECT_TX, warp, bar, kind.storage_bytes)
    value = np.arange(1, 1 + 32 * kind.lanes).reshape(32, kind.lanes).astype(kind.numpy)
    run(cluster_store_async(kind), warp, s, 2, value if kind.lanes > 1 else value[:, 0], bar)
    run(MBARRIER_WAIT, warp, bar, 0)
    np.testing.assert_array_equal(warp.values(s)[: kind.lanes], value[0])


def test_sizes_that_no_access_has_are_refused():
    with pytest.raises(NoLowering, match="ld.shared::cluster: no access of 32 bytes"):
        cluster_load(as_dtype("float32x8"))
    with pytest.raises(NoLowering, match="st.async: no access of 2 bytes, which float16 has"):
        cluster_store_async(as_dtype("float16"))


def _calls():
    """A function around each instruction."""
    plain = [CLUSTER_ARRIVE, CLUSTER_ARRIVE_RELAXED, CLUSTER_WAIT]
    for instruction in plain:
        yield instruction, "", instruction.texts["cuda"] + ";"
    for instruction in (CLUSTER_RANK, CLUSTER_SIZE):
        yield instruction, "int* out", f"*out = {instruction.texts['cuda']};"
    for release in (False, True):
        instruction = mbarrier_arrive_remote(release=release)
        yield instruction, "void* bar, int rank", instruction.texts["cuda"].format("bar", "rank") + ";"
    for kind in map(as_dtype, MOVED):
        held = cuda_type(kind)
        load, store = cluster_load(kind), cluster_store(kind)
        yield load, f"{held.name}* p, int rank, {held.value}* out", f"*out = {load.texts['cuda'].format('p', 'rank')};"
        yield store, f"{held.name}* p, int rank, {held.value} v", store.texts["cuda"].format("p", "rank", "v") + ";"
        if kind.storage_bytes >= 4:
            push = cluster_store_async(kind)
            text = push.texts["cuda"].format("p", "rank", "v", "bar") + ";"
            yield push, f"{held.name}* p, int rank, {held.value} v, void* bar", text


@needs_cuda_compiler
@pytest.mark.parametrize("architecture", ["sm_90a", "sm_120a"])
def test_every_text_compiles(architecture):
    calls = list(_calls())
    assert all(Target("cuda", architecture).has(i.needs) and not Target("cuda", "sm_89").has(i.needs) for i, _, _ in calls)
    helpers = [INTEGERS, *(instruction.helpers.get("cuda") for instruction, _, _ in calls)]
    helpers += [cuda_type(as_dtype(name)).helper for name in MOVED]
    functions = [
        f'extern "C" __global__ void f{n}({head}) {{ {text} }}' for n, (_, head, text) in enumerate(calls)
    ]
    assert compile_cuda(cuda_source(helpers, functions), architecture)
