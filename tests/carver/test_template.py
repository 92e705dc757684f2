import math

import numpy as np
import pytest

import tilelang
from tilelang import carver
from tilelang.carver.arch import CUDA
from tilelang.carver.roller.rasterization import NoRasterization, Rasterization2DRow
from tilelang.carver.template import (
    BaseTemplate,
    ConvTemplate,
    ElementwiseTemplate,
    FlashAttentionTemplate,
    GEMVTemplate,
    GeneralReductionTemplate,
    MatmulTemplate,
)

HOPPER = CUDA("sm_90a")
TEMPLATES: dict[str, tuple[BaseTemplate, int, int]] = {  # how many output axes there are, and how many are summed over
    "a product": (MatmulTemplate(1024, 1024, 1024, accum_dtype="float32"), 2, 1),
    "a small product": (MatmulTemplate(100, 37, 20, in_dtype="int8", accum_dtype="int32"), 2, 1),
    "a vector": (GEMVTemplate(1024, 4096), 2, 1),
    "elements": (ElementwiseTemplate([1024, 512]), 2, 0),
    "a line": (ElementwiseTemplate([1024], "float32"), 1, 0),
    "sums": (GeneralReductionTemplate("SRS", [128, 64, 32]), 2, 1),
    "all sums": (GeneralReductionTemplate("RR", [128, 64]), 1, 2),
    "attention": (FlashAttentionTemplate(None, 4, 32, 128, 512, 512), 4, 1),
    "a convolution": (ConvTemplate(8, 64, 32, 32, 128, 3, 1, 1, 1), 2, 1),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_hints_can_run(name: str) -> None:
    template, axes, summed = TEMPLATES[name]
    assert template is template.with_arch(HOPPER)
    hints = template.recommend_hints(topk=5)
    assert 1 <= len(hints) <= 5
    for hint in hints:
        assert (axes, summed) == (len(hint.block), len(hint.rstep))
        assert hint.pipeline_stage >= 1
        assert isinstance(hint.rasterization_plan, NoRasterization | Rasterization2DRow)
        parts = hint.warp if hint.use_tc else hint.thread
        assert all(tile % part == 0 for tile, part in zip(hint.block, parts, strict=True)) or not hint.use_tc
        if axes == 2 and hint.use_tc:
            warps = math.prod(hint.block) // math.prod(hint.warp)
            assert 1 <= warps <= 8
            assert hint.pipeline_stage * sum(hint.block) * hint.rstep[0] * 2 <= HOPPER.smem_cap


def test_large_products_get_large_tiles() -> None:
    large = MatmulTemplate(16384, 8192, 4096, accum_dtype="float32").with_arch(HOPPER).recommend_hints(1)[0]
    small = MatmulTemplate(64, 64, 4096, accum_dtype="float32").with_arch(HOPPER).recommend_hints(1)[0]
    assert math.prod(large.block) > math.prod(small.block)
    assert Rasterization2DRow(4) == large.rasterization_plan
    assert large.rasterization_plan is not NoRasterization
    assert "<Rasterization2DRow 4>" == repr(large.rasterization_plan)


@pytest.mark.parametrize(
    ("arch", "rows", "depth", "tiles"),
    [
        ("sm_90a", 4096, 128, {(192, 80), (192, 64)}),
        ("sm_90a", 4096, 64, {(192, 128)}),
        ("sm_90a", 4096, 256, set()),
        ("sm_90a", 128, 128, set()),
        ("sm_80", 4096, 128, set()),
    ],
)
def test_attention_on_hopper_may_have_three_warpgroups(arch: str, rows: int, depth: int, tiles: set[object]) -> None:
    hints = FlashAttentionTemplate(None, 4, 32, depth, rows, 4096).with_arch(CUDA(arch)).recommend_hints(topk=100)
    large = [hint for hint in hints if hint.block[2] > 128]
    assert tiles == {(hint.block[2], hint.rstep[0]) for hint in large}
    assert all(hint.warp == [1, 1, 16, depth] for hint in large)


def test_the_function_of_a_product() -> None:
    func = MatmulTemplate(3, 4, 5, in_dtype="float32", out_dtype="float32", accum_dtype="float32", with_bias=True)
    random = np.random.default_rng(0)
    a, b, bias = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((3, 5), (4, 5), (4,)))
    c = np.zeros((3, 4), np.float32)
    tilelang.compile(func.equivalent_function(), execution_backend="reference")(a, b, bias, c)
    assert np.array_equal(a @ b.T + bias, c)


def test_the_functions_of_the_others() -> None:
    for template, *_ in TEMPLATES.values():
        assert template.equivalent_function() is not None
    a, out = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.zeros((2, 4), np.float32)
    sums = GeneralReductionTemplate("SRS", (2, 3, 4), "float32").equivalent_function()
    tilelang.compile(sums, execution_backend="reference")(a, out)
    assert np.array_equal(a.sum(axis=1), out)


def test_names_where_programs_import_them() -> None:
    assert MatmulTemplate is carver.MatmulTemplate
    assert NoRasterization is carver.NoRasterization
    assert TEMPLATES["a line"][0].arch is HOPPER


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: MatmulTemplate(0, 1, 1), ValueError, "MatmulTemplate: M is 0, not a positive int"),
        (lambda: MatmulTemplate(1, 1), ValueError, "MatmulTemplate: K is None, not a positive int"),
        (
            lambda: GeneralReductionTemplate("SX", [1, 2]),
            ValueError,
            "GeneralReductionTemplate: structure 'SX' does not say S or R for each axis of (1, 2)",
        ),
        (
            lambda: ElementwiseTemplate([4]).recommend_hints(0),
            ValueError,
            "ElementwiseTemplate: topk is 0, not a positive int",
        ),
        (lambda: ElementwiseTemplate([4]).with_arch(3), TypeError, "ElementwiseTemplate: 3 is no architecture"),  # type: ignore[arg-type]
    ],
)
def test_what_no_template_takes(make: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        make()  # type: ignore[operator]
    assert message == caught.value.message  # type: ignore[attr-defined]
