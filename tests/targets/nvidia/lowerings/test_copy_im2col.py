"""Windows of images by the copy engine: when they are possible, and whole convolutions in the simulator."""

import dataclasses

import pytest

torch = pytest.importorskip("torch")

from answers import reason  # noqa: E402
from compatible_convolution import check_convolution  # noqa: E402
from compatible_programs import Machine  # noqa: E402
from thread_kernels import buffer, index  # noqa: E402

from tilelang.ir.buffer import Buffer, Scope  # noqa: E402
from tilelang.ir.expr import as_expr  # noqa: E402
from tilelang.lowering.lowering import LoweringContext  # noqa: E402
from tilelang.lowering.regions import slice_along, whole  # noqa: E402
from tilelang.ops.im2col import Im2Col  # noqa: E402
from tilelang.options import CompileOptions  # noqa: E402
from tilelang.targets.nvidia.lowerings.copy_im2col import TmaIm2Col  # noqa: E402
from tilelang.targets.target import Target  # noqa: E402

HOPPER = {"target": {"kind": "cuda", "arch": "sm_90a"}}
SIMULATOR = Machine("cpu", {**HOPPER, "execution_backend": "simulator"})
SMALL = {"channels": 64, "filters": 64, "block_N": 64, "threads": 128}


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(
    "case",
    [
        {"images": 2, "height": 6, "width": 7, "kernel": 3, "stride": 1, "dilation": 1, "pad": 1, "stages": 2},
        {"images": 1, "height": 7, "width": 9, "kernel": 3, "stride": 2, "dilation": 2, "pad": 2, "block_K": 64},
        {"images": 3, "height": 5, "width": 5, "kernel": 2, "stride": 1, "dilation": 3, "pad": 3, "channels": 128, "block_K": 128},
    ],
    ids=["columns share a tap", "steps and dilation", "several boxes"],
)  # fmt: skip
def test_convolutions_agree_with_torch(case):
    kernel = check_convolution(SIMULATOR, **{**SMALL, **case})
    assert "tma_load_4d_im2col" in kernel.get_kernel_source()


def test_columns_of_several_taps_are_gathered_by_threads():
    case = {"images": 1, "height": 4, "width": 4, "kernel": 2, "stride": 1, "dilation": 1, "pad": 0}
    kernel = check_convolution(SIMULATOR, **{**SMALL, **case, "channels": 8, "block_K": 16})
    assert "tma_load_4d_im2col" not in kernel.get_kernel_source()


def load(channels=64, rows=64, columns=32, kernel=3, stride=1, dilation=1, pad=1, height=9):
    image = buffer("A", (2, height, 8, channels), "float16")
    barrier = Buffer("full", (as_expr(1),), buffer("x", (1,), "uint64").dtype, Scope.BARRIER)
    tile = buffer("S", (rows, columns), "float16", Scope.SHARED)
    at = (index("by"), index("k"))
    return Im2Col(whole(image), whole(tile), *at, kernel, stride, dilation, pad, barrier=whole(barrier))


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (load(), ""),
        (load(height=index("H")), ""),
        (load(channels=48), "32 columns are not proven to belong to one tap of the window"),
        (dataclasses.replace(load(columns=64), dst=slice_along(load(columns=64).dst, 1, 0, 32)), "the tile is a part of its buffer"),
        (load(rows=2048), "2048 rows are more than 1024"),
        (load(stride=9), "the window, or its stride, is larger than TMA supports"),
        (load(kernel=64, dilation=5), "the window, or its stride, is larger than TMA supports"),
        (load(pad=129), "the window, or its stride, is larger than TMA supports"),
        (dataclasses.replace(load(), barrier=None), "no barrier counts its bytes"),
        (dataclasses.replace(load(), part=as_expr(0), parts=2), "im2col loads are not multicast"),
        (dataclasses.replace(load(), src=slice_along(load().src, 0, 1, 1)), "a part of a tensor is no image"),
    ],
)
def test_what_the_engine_cannot_walk_is_refused_in_words(op: Im2Col, why: str):
    assert why == reason(TmaIm2Col(), op, LoweringContext(Target("cuda", "sm_90a"), CompileOptions(), 1))
