"""Blocks share the iterations of a loop of products, and then the columns of what it gives; what is not so is said."""

import pytest
from specialized import TABLE, gemm_kernel, launch_of, warp_specialize

import tilelang.language as T
from tilelang.arith.domain import of_function
from tilelang.arith.prove import proves
from tilelang.ir.printer import to_text
from tilelang.ir.verify import verify
from tilelang.passes.base import PassContext
from tilelang.passes.tile import inline_bindings
from tilelang.targets.nvidia.passes import cluster_split_k
from tilelang.targets.nvidia.passes.choose_schedule import choose_schedule
from tilelang.targets.nvidia.passes.gemm_loop import NotSplit
from tilelang.targets.target import Target

PASSES = (inline_bindings.PASS, choose_schedule(TABLE), cluster_split_k.PASS)


def text(func, blocks, **pass_configs):
    made = warp_specialize(func, passes=PASSES, split=blocks, **pass_configs)
    verify(made)
    lines = to_text(made).splitlines()
    begin = next(n for n, line in enumerate(lines) if "T.Kernel" in line)
    return [line.strip() for line in lines[begin:] if line.strip()]


def test_each_block_has_its_share_and_its_columns():
    shown = text(gemm_kernel(64, 256, 512, 64, 128, 64), 2, stages=3)
    assert shown == [
        "with T.Kernel(4, 1, threads=128) as (block, by):",
        "# cluster (2, 1, 1)",
        "# schedule: 1 consumer warpgroup, a producer of 32 threads, 3 stages, split-K over clusters of 2 blocks, asynchronous "
        "epilogue stores through shared memory",
        "bx = T.min(block // 2, 1)",
        "rank = block % 2",
        'C_l_sent = T.alloc_barrier((1,), "uint64")',
        'C_l_parts = T.alloc_shared((4096,), "float32")',
        'A_s = T.alloc_shared((64, 64), "float16")',
        'B_s = T.alloc_shared((64, 128), "float16")',
        'C_l = T.alloc_fragment((64, 128), "float32")',
        "T.fill(C_l, 0.0)",
        "for k in T.Pipelined(4, num_stages=3):",
        "T.copy(A[by * 64:by * 64 + 64, (rank * 4 + k) * 64:(rank * 4 + k) * 64 + 64], A_s)",
        "T.copy(B[(rank * 4 + k) * 64:(rank * 4 + k) * 64 + 64, bx * 128:bx * 128 + 128], B_s)",
        "T.gemm(A_s, B_s, C_l)  # gemm.wgmma",
        'C_l_own = T.alloc_fragment((64, 64), "float32")',
        "sum over a cluster(C_l, C_l_own, C_l_parts, C_l_sent, rank, blocks=2)",
        "T.copy(C_l_own, C[by * 64:by * 64 + 64, bx * 128 + rank * 64:bx * 128 + rank * 64 + 64])",
    ]


def test_the_first_block_does_the_rest_where_columns_are_too_few():
    shown = text(gemm_kernel(64, 32, 512, 64, 32, 64), 3)
    assert "sum over a cluster(C_l, C_l, C_l_parts, C_l_sent, rank, blocks=3)" in shown
    assert "if rank < 1:" == shown[shown.index("sum over a cluster(C_l, C_l, C_l_parts, C_l_sent, rank, blocks=3)") + 1]


def test_some_of_the_blocks_own_columns_where_there_are_few():
    shown = text(gemm_kernel(64, 32, 512, 64, 32, 64), 4)
    assert "if rank < 2:" in shown
    assert 'C_l_own = T.alloc_fragment((64, 16), "float32")' in shown


def test_indices_are_visibly_within_a_symbolic_grid():
    func = gemm_kernel(64, T.dynamic("n") * 8, 512, 64, 128, 64)
    launch = launch_of(warp_specialize(func, passes=PASSES, split=2, persistent=False))
    domain = of_function(func)
    for var, extent in zip(launch.block_vars, launch.grid, strict=True):
        domain = domain.with_loop(var, 0, extent)
    bx, rank = launch.body.body[:2]
    assert proves(bx.value * 2 < launch.grid[0], domain)
    assert proves(rank.value < 2, domain)


def test_sums_of_several_gemms_are_not_exchanged():
    @T.prim_func
    def main(A: T.Tensor((64, 512), "float16"), C: T.Tensor((64, 64), "float32"), D: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            C_l, D_l = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            T.clear(D_l)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[0, k * 64], A_s)
                T.gemm(A_s, A_s, C_l, transpose_B=True)
                T.gemm(A_s, A_s, D_l, transpose_B=True)
            T.copy(C_l, C)
            T.copy(D_l, D)

    with pytest.raises(NotSplit, match="a cluster adds up the sums of one gemm"):
        cluster_split_k.split(launch_of(warp_specialize(main, passes=PASSES[:1])), 2, 1)


def test_launches_without_a_schedule_or_with_one_block_for_each_tile_stay_as_they_are():
    func = warp_specialize(gemm_kernel(64, 128, 512, 64, 128, 64), passes=PASSES[:2])
    assert cluster_split_k.PASS.run(func, PassContext(target=Target("cuda", "sm_90a"))) is func
