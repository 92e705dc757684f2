"""Capabilities tell which single operators a target can do for producers and consumers, and why not."""

import dataclasses

import numpy as np
import pytest
from specialized import TABLE, context, gemm_kernel, launch_of

import tilelang
import tilelang.language as T
from tilelang.dtypes import SCALARS
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.backend import LOWERINGS
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import (
    divides_columns,
    target_capabilities,
)


def roles_and_launch(func, table=TABLE):
    return target_capabilities(func, table, context()), flatten_sequences(launch_of(func))


def test_tiles_of_parameters_are_loaded_and_results_stored():
    capabilities, launch = roles_and_launch(gemm_kernel(256, 256, 256))
    (load_group,) = capabilities.load_groups(launch).found
    assert ["A_s", "B_s"] == [tile.name for tile in load_group.tiles]
    (made,) = capabilities.epilogue_stores(launch, 256)
    assert "C_l" == made.copy.src.buffer.name
    assert capabilities.only_read_by_wgmma(load_group, 256)
    assert not capabilities.only_read_by_wgmma(load_group, 96)


def test_what_has_no_tensor_map_is_not_loaded():
    capabilities, launch = roles_and_launch(gemm_kernel(256, 256, 256))
    unknown = dataclasses.replace(capabilities, parameters=frozenset())
    assert () == unknown.load_groups(launch).found
    assert "'A' has no tensor map" == unknown.load_groups(launch).refused[0][1]
    assert () == unknown.epilogue_stores(launch, 256)


def test_a_table_without_a_lowering_refuses():
    func = gemm_kernel(256, 256, 256)
    capabilities, launch = roles_and_launch(func, {})
    (gemm,) = (s for s in walk(launch.body) if isinstance(s, Gemm))
    assert "the target has no gemm.wgmma" == capabilities.wgmma_refusal(gemm, 128)


def test_blocks_multicast_tiles_that_have_equal_parts():
    capabilities, launch = roles_and_launch(gemm_kernel(256, 256, 256))
    copy, _ = capabilities.load_groups(launch).found[0].copies
    assert "" == capabilities.multicast_refusal(copy, 2)
    assert "3 blocks cannot load equal parts of 128 rows and 64 columns" == capabilities.multicast_refusal(copy, 3)


def test_wide_operands_are_converted_before_the_gemm():
    capabilities, launch = roles_and_launch(gemm_kernel(256, 256, 256))
    (gemm,) = (s for s in walk(launch.body) if isinstance(s, Gemm))
    assert capabilities.reads_by_wgmma(gemm, gemm.a.buffer, 128)
    wide = dataclasses.replace(gemm.a.buffer, dtype=SCALARS["float32"])
    made = dataclasses.replace(gemm, a=dataclasses.replace(gemm.a, buffer=wide))
    assert not capabilities.reads_by_wgmma(made, wide, 128)


def product_of_a_workspace():

    @T.prim_func
    def main(A: T.Tensor((256, 256), "float16"), B: T.Tensor((256, 256), "float16"), C: T.Tensor((256, 256), "float16")):
        W = T.alloc_global((256, 256), "float16")
        with T.Kernel(256, threads=128) as bx:
            T.copy(A[bx, 0:256], W[bx, 0:256])
        with T.Kernel(2, 2, threads=256) as (bx, by):
            A_s, B_s = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16")
            C_l = T.alloc_fragment((128, 128), "float32")
            T.clear(C_l)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(W[by * 128, k * 64], A_s)
                T.copy(B[k * 64, bx * 128], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C[by * 128, bx * 128])

    return main


def test_workspaces_are_loaded_by_maps_too():
    kernel = tilelang.compile(product_of_a_workspace(), target={"kind": "cuda", "arch": "sm_90a"}, execution_backend="simulator")
    assert "W_map" in kernel.get_kernel_source()
    a, b = np.random.default_rng(0).standard_normal((2, 256, 256)).astype(np.float16)
    c = np.zeros((256, 256), np.float16)
    kernel(a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-2, atol=5e-2)


def results_in_a_workspace(through_tile, m=200, n=192, k=150):
    """A product that waits in a temporary of global memory for another kernel."""

    @T.prim_func
    def main(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float16")):
        W = T.alloc_global((m, n), "float16")
        with T.Kernel(T.ceildiv(n, 128), T.ceildiv(m, 128), threads=256) as (bx, by):
            A_s, B_s = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16")
            C_l, C_s = T.alloc_fragment((128, 128), "float32"), T.alloc_shared((128, 128), "float16")
            T.clear(C_l)
            for step in T.Pipelined(T.ceildiv(k, 64), num_stages=3):
                T.copy(A[by * 128, step * 64], A_s)
                T.copy(B[step * 64, bx * 128], B_s)
                T.gemm(A_s, B_s, C_l)
            if through_tile:
                T.copy(C_l, C_s)
                T.copy(C_s, W[by * 128, bx * 128])
            else:
                T.copy(C_l, W[by * 128, bx * 128])
        with T.Kernel(m, threads=64) as row:
            for i in T.Parallel(n):
                C[row, i] = W[row, i] + W[(row + 1) % m, i]

    return main


@pytest.mark.parametrize("through_tile", [False, True])
def test_results_in_a_workspace_are_stored_asynchronously_where_the_program_has_a_tile_for_them(through_tile):
    func = results_in_a_workspace(through_tile)
    launch = flatten_sequences(next(stmt for stmt in walk(func.body) if isinstance(stmt, Launch)))
    assert through_tile == bool(target_capabilities(func, TABLE, context()).epilogue_stores(launch, 256))
    sizes = {"m": 136, "n": 72, "k": 104}
    kernel = tilelang.compile(results_in_a_workspace(through_tile, **sizes), target="sm_90a", execution_backend="simulator")
    assert through_tile == ("stores through shared memory" in kernel.explain())
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((136, 104), (104, 72)))
    c = np.zeros((136, 72), np.float16)
    kernel(a, b, c)
    product = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(c, product + np.roll(product, -1, axis=0))


def test_warpgroups_divide_columns_where_the_plan_of_a_gemm_says_so():
    capabilities, launch = roles_and_launch(gemm_kernel(256, 256, 256), LOWERINGS)
    (plain,) = (s for s in walk(launch.body) if isinstance(s, Gemm))
    planned = capabilities.with_plans(launch, [plain], 256)
    (gemm,) = (s for s in walk(planned.body) if isinstance(s, Gemm))
    assert not divides_columns(gemm) and not divides_columns(plain)
    by_columns = dataclasses.replace(gemm.plan.groups, rows=1, columns=2)
    assert divides_columns(dataclasses.replace(gemm, plan=dataclasses.replace(gemm.plan, groups=by_columns)))
