"""How many warpgroups share tiles: by rows of gemms, registers, layouts of the kernel, and what the user sets."""

import pytest
from specialized import TABLE, context, gemm_kernel, launch_of

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import target_capabilities
from tilelang.targets.nvidia.passes.warp_specialization.consumer_count import (
    choose_consumers,
    consumers_refusal,
    has_fixed_layouts,
)


def choice(func, asked=None, blocks_per_sm=1):
    launch = flatten_sequences(launch_of(func))
    gemms = [stmt for stmt in walk(launch.body) if isinstance(stmt, Gemm)]
    return choose_consumers(launch, gemms, target_capabilities(func, TABLE, context()), asked, blocks_per_sm)


def fixed(threads):
    @T.prim_func
    def main(A: T.Tensor((256, 256), "float16"), C: T.Tensor((256, 256), "float32")):
        with T.Kernel(2, 2, threads=threads) as (bx, by):
            A_s, B_s = T.alloc_shared((128, 64), "float16"), T.alloc_shared((128, 64), "float16")
            C_l = T.alloc_fragment((128, 128), "float32")
            T.annotate_layout({C_l: T.Fragment((128, 128), forward_fn=lambda i, j: (i, j))})
            T.clear(C_l)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[by * 128, k * 64], A_s)
                T.copy(A[bx * 128, k * 64], B_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True)
            T.copy(C_l, C[by * 128, bx * 128])

    return main


@pytest.mark.parametrize(("rows", "expected"), [(128, 2), (192, 3), (64, 1), (256, 2)])
def test_warpgroups_divide_the_rows_of_gemms(rows, expected):
    assert expected == choice(gemm_kernel(768, 512, 512, rows, 128))


def test_two_share_columns_where_one_lacks_registers():
    assert 2 == choice(gemm_kernel(512, 512, 512, 64, 512))


def test_blocks_of_which_several_run_at_once_are_small():
    assert 1 == choice(gemm_kernel(512, 512, 512, 128, 128), blocks_per_sm=2)
    assert 2 == choice(gemm_kernel(512, 512, 512, 128, 128), asked=2, blocks_per_sm=2)
    reason = "tiles take 256 registers of a thread, which has 208 for them"
    assert reason == choice(gemm_kernel(512, 512, 512, 128, 256), blocks_per_sm=2)


def test_what_the_user_sets_is_kept_or_refused_with_what_fits():
    func = gemm_kernel(512, 512, 512, 128, 256)
    assert 3 == choice(func, asked=3)
    with pytest.raises(ProgramError, match="1 consumer warp group cannot share the work: tiles take 256 registers") as caught:
        choice(func, asked=1)
    assert "'tl.consumers': 2 fits" == caught.value.hint


def test_layouts_in_the_kernel_fix_the_number():
    assert has_fixed_layouts(launch_of(fixed(128))) and not has_fixed_layouts(launch_of(gemm_kernel(256, 256, 256)))
    assert 1 == choice(fixed(128))
    assert "the kernel fixes the layouts of 96 threads, which are no whole warpgroups" == choice(fixed(96))


def test_why_a_number_is_unsuitable():
    func = gemm_kernel(512, 512, 512, 64, 128)
    launch, capabilities = flatten_sequences(launch_of(func)), target_capabilities(func, TABLE, context())
    (gemm,) = (stmt for stmt in walk(launch.body) if isinstance(stmt, Gemm))
    refused = lambda count, required: consumers_refusal(launch, count, (gemm,), capabilities, required=required)  # noqa: E731
    assert "" == refused(1, False) == refused(2, True)
    assert "2 warpgroups do not divide the rows of a gemm" == refused(2, False)
