"""The program of each role, as text, and what surrounds them."""

import re

import pytest
from specialized import gemm_kernel, launch_of, warp_specialize

import tilelang.language as T
from tilelang.ir.pipeline import Acquire, InitPipelines, Wait
from tilelang.ir.printer import to_text
from tilelang.ir.specialization import Specialization
from tilelang.ir.stmt import Alloc, If
from tilelang.ir.verify import verify
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.targets.nvidia.schedule import schedule_of
from tilelang.transforms.specialize_symbols import specialize


def text(func, start, **pass_configs):
    """The lines of a role."""
    made = warp_specialize(func, **pass_configs)
    verify(made)
    lines = to_text(made).splitlines()
    first = next(n for n, line in enumerate(lines) if start in line)
    depth = len(lines[first]) - len(lines[first].lstrip())
    inside = []
    for line in lines[first + 1 :]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            break
        inside.append(line[depth + 4 :])
    return inside


PERSISTENT = {"persistent": True, "stages": 3, "ping_pong": False, "consumers": 2}


def test_one_thread_loads_tiles():
    expected = """\
for turn in T.serial((4 - block + 3) // 4):
    tile = T.min(block + turn * 4, 3)
    panel = T.max(T.min(16, 2 - tile // 32 * 16), 1)
    bx = T.min(tile % 32 // panel, 1)
    by = T.min(tile // 32 * 16 + tile % 32 % panel, 1)
    for k in T.serial(4):
        version = (turn * 4 + k) % 3
        phase = (turn * 4 + k) // 3 % 2
        pipeline A_s: acquire(version, phase)
        T.copy(A[by * 128:by * 128 + 128, k * 64:k * 64 + 64], A_s[version, :, :], barrier=A_s_full[version:version + 1])
        T.copy(B[k * 64:k * 64 + 64, bx * 128:bx * 128 + 128], B_s[version, :, :], barrier=A_s_full[version:version + 1])
        pipeline A_s: commit(version)
"""
    assert expected.splitlines() == text(gemm_kernel(256, 256, 256), "# one thread", **PERSISTENT)


def test_consumers_compute_and_release_stages():
    expected = """\
C_l_staging = T.alloc_shared((128, 128), "float16")
for turn in T.serial((4 - block + 3) // 4):
    tile = T.min(block + turn * 4, 3)
    panel = T.max(T.min(16, 2 - tile // 32 * 16), 1)
    bx = T.min(tile % 32 // panel, 1)
    by = T.min(tile // 32 * 16 + tile % 32 % panel, 1)
    C_l = T.alloc_fragment((128, 128), "float32")
    for k in T.serial(4):
        version = (turn * 4 + k) % 3
        phase = (turn * 4 + k) // 3 % 2
        pipeline A_s: wait(version, phase)
        T.gemm(A_s[version, :, :], B_s[version, :, :], C_l, clear_accum=k == 0)  # gemm.wgmma
        pipeline A_s: release(version)
    wait for stores(read=True)
    T.copy(C_l, C_l_staging)
    T.copy(C_l_staging, C[by * 128:by * 128 + 128, bx * 128:bx * 128 + 128], is_async=True)
wait for stores(read=True)
"""
    inside = text(gemm_kernel(256, 256, 256), "256 threads together", **PERSISTENT)
    assert expected.splitlines() == [line for line in inside if line.strip()]


def in_several_places(clusters=1):
    """Loads of the same tiles in front of a loop, within it and in another one."""

    @T.prim_func
    def main(A: T.Tensor((512, 512), "float16"), C: T.Tensor((512, 64), "float32")):
        with T.Kernel(8, threads=128, cluster_dims=clusters) as bx:
            A_s, B_s = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.copy(A[bx * 64, 0], A_s)
            T.copy(A[0, 0], B_s)
            T.gemm(A_s, B_s, C_l, clear_accum=True)
            for first in (1, 4):
                for k in T.Pipelined(first, first + 3, num_stages=2):
                    T.copy(A[bx * 64, k * 64], A_s)
                    T.copy(A[0, k * 64], B_s)
                    T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C[bx * 64, 0])

    return main


def test_loads_of_a_tile_in_several_places_fill_one_pipeline_in_turn():
    made = warp_specialize(in_several_places(), stages=3)
    verify(made)
    (init,) = (s for s in walk(made.body) if isinstance(s, InitPipelines))
    assert ["A_s", "B_s"] == [each.name for each in init.pipelines]
    assert ["A_s", "B_s"] == [s.buffer.name for s in walk(made.body) if isinstance(s, Alloc) and s.buffer.name in ("A_s", "B_s")]
    gemms = [s for s in walk(made.body) if isinstance(s, Gemm)]
    assert 3 == len({gemm.a.start[0] for gemm in gemms}) == len(gemms)  # each has a stage of its own
    for kind in (Acquire, Wait):
        assert 3 == len([s for s in walk(made.body) if isinstance(s, kind) and s.pipeline is init.pipelines[0]])


def test_tiles_that_are_loaded_in_several_places_are_not_loaded_by_multicast():
    assert () == schedule_of(launch_of(warp_specialize(in_several_places(clusters=2)))).multicast


def test_results_of_symbolic_sizes_are_stored_through_shared_memory_too():
    func = gemm_kernel(T.dynamic("M"), T.dynamic("N"), T.dynamic("K"), bn=256)
    text = to_text(warp_specialize(specialize(func, Specialization(multiples=(("N", 128), ("K", 128))))))
    assert "is_async=True" in text


def test_threads_are_those_of_the_partitions_and_versions_are_recorded():
    launch = launch_of(warp_specialize(gemm_kernel(256, 256, 256)))
    assert (288, 1, 1) == launch.threads
    assert {"A_s": 4, "B_s": 4} == {buffer.name: count for buffer, count in launch.plan.versions}
    groups = [(s.group.first, s.group.count) for s in walk(launch.body) if isinstance(s, If) and s.group]
    assert [(256, 32), (256, 1), (0, 256)] == groups
    assert all(s.group.collective for s in walk(launch.body) if isinstance(s, If) and s.group)


def test_producers_give_registers_away_where_consumers_need_them():
    launch = launch_of(warp_specialize(gemm_kernel(512, 384, 512, 256, 192)))
    assert (384, 1, 1) == launch.threads
    assert 1 == launch.hints.min_blocks_per_sm
    assert (240, 24) == schedule_of(launch).registers
    groups = [(s.group.first, s.group.count) for s in walk(launch.body) if isinstance(s, If) and s.group]
    assert [(256, 128), (256, 1), (0, 256)] == groups


def test_trip_counts_that_differ_between_tiles_are_counted_by_both_partitions():
    @T.prim_func
    def main(A: T.Tensor((4096, 256), "float16"), C: T.Tensor((4096, 64), "float32")):
        with T.Kernel(64, threads=128) as bx:
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for k in T.Pipelined(bx % 4 + 1, num_stages=3):
                T.copy(A[bx * 64, k * 64], A_s)
                T.gemm(A_s, A_s, C_l, transpose_B=True)
            T.copy(C_l, C[bx * 64, 0])

    made = warp_specialize(main, persistent=True, ping_pong=False, stages=3)
    verify(made)
    shown = to_text(made)
    assert 2 == shown.count('fills = T.alloc_var("int32", init=0)')
    assert 2 == len(re.findall(r"fill = .*fills \+ k", shown)) == len(re.findall(r"^ +fills = fills \+ ", shown, re.MULTILINE))


def test_annotated_layouts_go_along_with_the_versions():
    @T.prim_func
    def main(A: T.Tensor((64, 512), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({A_s: T.Layout((64, 64), lambda i, j: i * 64 + j)})
            T.clear(C_l)
            for k in T.Pipelined(8, num_stages=3):
                T.copy(A[0, k * 64], A_s)
                T.gemm(A_s, A_s, C_l, transpose_B=True)
            T.copy(C_l, C)

    launch = launch_of(warp_specialize(main, stages=3))
    ((annotated, _),) = launch.hints.layouts
    (tile,) = (s.buffer for s in walk(launch.body) if isinstance(s, Alloc) and s.buffer.name == "A_s")
    assert annotated is tile
    assert (3, 64, 64) == tile.static_shape


@pytest.mark.parametrize("key", ["disable_warp_specialized", "disable_tma_lower"])
def test_switched_off_nothing_changes(key):
    launch = launch_of(warp_specialize(gemm_kernel(256, 256, 256), **{key: True}))
    assert (128, 1, 1) == launch.threads


def test_blocks_that_share_tiles_release_them_to_each_other():
    alone = to_text(warp_specialize(gemm_kernel(256, 256, 256), persistent=False))
    assert "shared by" not in alone and "release to blocks" not in alone
    shared = to_text(warp_specialize(gemm_kernel(256, 256, 256, cluster=2), stages=2))
    assert "threads 256 to 287 copy 32768 bytes; threads 0 to 255 read by matrix units only; shared by 2 blocks" in shared
    assert "pipeline A_s: release to blocks (bx % 2, (bx % 2 + 1) % 2)" in shared
    once = to_text(warp_specialize(gemm_kernel(256, 256, 128, cluster=2), stages=2))  # no version is loaded twice
    assert "shared by 2 blocks" in once and "release" not in once
    apart = to_text(warp_specialize(gemm_kernel(512, 256, 128, bm=64, bk=32, cluster=(1, 8)), stages=2))
    assert "shared by" not in apart and "# cluster (1, 8, 1)" in apart


def several_products():
    """Loops with one gemm each, of which threads compute an operand."""

    @T.macro
    def product(A, W, C_l, steps):
        A_s = T.alloc_shared((64, 64), "float16")
        W_b = T.alloc_shared((24, 64), "int8")
        W_s = T.alloc_shared((24, 64), "float16")
        for k in T.Pipelined(steps, num_stages=2):
            T.copy(A[0, k * 64], A_s)
            T.copy(W[0, k * 64], W_b)
            for i, j in T.Parallel(24, 64):
                W_s[i, j] = T.cast(W_b[i, j], "float16") * 2 + 1
            T.gemm(A_s, W_s, C_l, transpose_B=True)

    @T.prim_func
    def main(A: T.Tensor((64, 512), "float16"), W: T.Tensor((24, 512), "int8"), C: T.Tensor((64, 24), "float32")):
        with T.Kernel(1, threads=128):
            C_l = T.alloc_fragment((64, 24), "float32")
            T.clear(C_l)
            product(A, W, C_l, 8)
            product(A, W, C_l, 7)
            product(A, W, C_l, 6)
            product(A, W, C_l, 5)
            product(A, W, C_l, 4)
            product(A, W, C_l, 3)
            T.copy(C_l, C)

    return main


def test_tiles_that_several_loops_compute_are_allocated_in_the_order_of_the_loops():
    launch = launch_of(warp_specialize(several_products()))
    names = [s.buffer.name for s in walk(launch) if isinstance(s, Alloc) and s.buffer.name.startswith("W_s")]
    assert ["W_s", *(f"W_s_{number}" for number in range(1, 6))] == names


@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_pipelined_loops_may_be_as_long_as_data_of_any_dtype_says(dtype):
    @T.prim_func
    def main(Q: T.Tensor((256, 64), "float16"), K: T.Tensor((512, 64), "float16"), L: T.Tensor((2,), dtype),
             O: T.Tensor((256, 64), "float32")):
        with T.Kernel(2, threads=256) as bx:
            q, k = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 64), "float16")
            scores, out = (T.alloc_fragment((128, 64), "float32") for _ in range(2))
            weights = T.alloc_fragment((128, 64), "float16")
            T.copy(Q[bx * 128, 0], q)
            T.clear(out)
            for i in T.Pipelined(L[bx], num_stages=2):
                T.copy(K[i * 64, 0], k)
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                for r, c in T.Parallel(128, 64):
                    weights[r, c] = T.exp2(T.min(scores[r, c], 0.0))
                T.gemm(weights, k, out, policy=T.GemmWarpPolicy.FullRow)
            T.copy(out, O[bx * 128, 0])

    made = warp_specialize(main)
    assert [2] == [each.stages for _, each in schedule_of(launch_of(made)).loops]
    verify(made)
