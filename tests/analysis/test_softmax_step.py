"""The parts of a softmax over tiles, as a loop of reductions and parallel loops has them."""

import attention_programs

from tilelang.analysis.softmax_step import softmax_step
from tilelang.ir.stmt import For, ParallelLoop
from tilelang.ir.visit import walk
from tilelang.ops.copy import Copy
from tilelang.ops.reduce import Reduce


def loop_of(func):
    (loop,) = (s for s in walk(func.body) if isinstance(s, For))
    return loop


def test_a_step_has_its_statements_in_order_and_its_tiles():
    step = softmax_step(loop_of(attention_programs.flash(1, 256, 64, 128, 64)))
    kinds = [Copy, Reduce, ParallelLoop, ParallelLoop, Reduce, ParallelLoop, Copy, ParallelLoop]
    assert kinds == [type(s) for s in step.statements]
    assert step.search is step.statements[1]
    tiles = (step.scores, step.maximum, step.total, step.output, step.converted)
    assert ["scores", "top", "total", "sums", "weights"] == [tile.name for tile in tiles]
    assert {"before", "factor", "part"} == {tile.name for tile in step.temporaries}
    assert "exp2" == step.function
    assert abs(1.44269504 / 8 - step.scale.value) < 1e-6


def test_masks_and_several_products_may_make_the_scores():
    assert softmax_step(loop_of(attention_programs.flash(1, 256, 64, 128, 64, causal=True))) is not None
    assert softmax_step(loop_of(attention_programs.latent(64, 256, 128, 64, 64))) is not None
