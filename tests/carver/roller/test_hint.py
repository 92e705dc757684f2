from tilelang.carver.roller import Hint, NoRasterization


def test_a_hint_needs_only_a_block() -> None:
    hint = Hint([16, 16])
    assert ([], [], [], 1, False, {}) == (
        *(hint.warp, hint.thread, hint.rstep),
        *(hint.pipeline_stage, hint.use_tc, hint.vectorize),
    )
    assert NoRasterization() == hint.rasterization_plan
