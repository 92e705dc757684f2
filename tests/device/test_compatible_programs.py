"""Whole programs in the style of published TileLang, at real sizes, on a GPU, against PyTorch."""

import pytest

torch = pytest.importorskip("torch")

import compatible_convolution  # noqa: E402
import compatible_mla  # noqa: E402
import compatible_programs as programs  # noqa: E402
import compatible_rows as rows  # noqa: E402
from device_launch import GPUS, architecture, needs_gpu  # noqa: E402

pytestmark = needs_gpu
needs_hopper = pytest.mark.skipif(GPUS > 0 and architecture() != "sm_90a", reason="needs a Hopper GPU")
ON = programs.Machine("cuda", {"target": "cuda"})


@needs_hopper
@pytest.mark.parametrize(("queries", "heads"), [(256, 64), (256, 128), (1, 128)])
def test_sparse_mla(queries, heads):
    programs.check_sparse_mla(ON, queries=queries, keys=4096, heads=heads, dim=512, tail=64, chosen=512)


@needs_hopper
@pytest.mark.parametrize("splits", [1, 4])
def test_mla_in_splits(splits):
    compatible_mla.check_mla_split(ON, batch=4, heads=128, keys=4096, dim=512, tail=64, splits=splits)


# torch differentiates in a thread of its own, which has no CUDA context at first
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS:UserWarning")
@pytest.mark.filterwarnings("ignore:kernel .* spills registers:tilelang.errors.ProgramWarning")
@needs_hopper
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("dim", "dtype"), [(64, "float16"), (64, "bfloat16"), (128, "bfloat16"), (128, "float16")])
def test_attention_backward(dim, dtype, causal):
    programs.check_attention_backward(
        ON, batch=2, heads=8, length=1024, dim=dim, dtype=dtype, causal=causal, block_N=128, threads=256
    )


def test_groups_through_tables_of_pointers():
    programs.check_grouped_products(
        ON, rows=(1000, 3, 517, 129, 640, 1), N=2048, K=1024, block_M=128, block_N=128, block_K=32
    )


@pytest.mark.parametrize(("tiles", "size"), [(64, (128, 64)), (64, (64, 256)), (200, (8, 32))])
def test_reducers_that_open_and_close_in_a_loop(tiles, size):
    programs.check_reducers(ON, tiles, *size)


def test_kernel_given_as_source():
    programs.check_given_source(ON, sizes=(1, 1000, 10_000_019))


@needs_hopper
@pytest.mark.parametrize("shape", [(4096, 1024), (1001, 512)])
def test_float8_with_a_scale_for_each_row(shape):
    programs.check_to_float8(ON, *shape)


def test_packed_fp4_with_scales():
    programs.check_from_fp4(ON, 2048, 2048)


@pytest.mark.parametrize("k", [1, 16, 100])
def test_topk_of_long_rows(k):
    rows.check_topk(ON, 128, 4096, k)


def test_sort_of_long_rows():
    rows.check_sort(ON, 128, 4096)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("columns", [4096, 5000])
def test_scans_of_long_rows(columns, reverse):
    rows.check_scans(ON, 64, columns, reverse)


def test_eager_style():
    rows.check_eager(ON, (1, 300, 2048), N=1024, K=1024)


def test_tensor_that_is_not_needed():
    rows.check_optional(ON, (1, 1000), 4000)


def test_shared_memory_sized_at_the_launch():
    rows.check_dynamic_shared(ON, 64, (1, 1000, 12_000, 40_000))


@needs_hopper
@pytest.mark.parametrize("size", [(1024, 1024, 1024), (4096, 2048, 512)])
def test_roles_and_barriers_in_a_pipelined_loop(size):
    for _ in range(5):
        rows.check_roles_gemm(ON, *size)


def test_dependent_launches():
    for _ in range(5):
        rows.check_dependent_launches(ON, 1 << 22, 10)


@needs_hopper
@pytest.mark.parametrize(
    "sizes",
    [  # images, channels, height, width, filters, kernel, stride, dilation, pad
        (2, 64, 9, 11, 64, 3, 1, 1, 1),
        (3, 128, 13, 7, 96, 3, 2, 1, 1),
        (2, 64, 12, 12, 128, 3, 1, 2, 2),
        (2, 128, 16, 16, 128, 5, 2, 1, 2),
        (1, 64, 8, 8, 64, 1, 1, 1, 0),
        (32, 128, 64, 64, 128, 3, 1, 1, 1),
    ],
)
def test_convolution(sizes):
    assert "tma_load_4d_im2col" in compatible_convolution.check_convolution(ON, *sizes).get_kernel_source()
