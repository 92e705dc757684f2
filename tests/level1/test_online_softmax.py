"""Which passes are steps of an online softmax."""

import level1_programs as graphs
import numpy as np
import pytest
from array_functions import trace

import tilelang.numpy as tnp
from tilelang.level1.data_passes import data_passes
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.graph import Graph
from tilelang.level1.online_softmax import SoftmaxStep, softmax_step
from tilelang.level1.strength_reduction import with_reduced_strength


def step_of(graph: Graph) -> SoftmaxStep | None:
    kernel = with_reduced_strength(fused_kernels(graph)[-1])
    (each, *later) = data_passes(kernel)
    return None if later else softmax_step(each, kernel.outputs)


def half(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float16)


def attention(q: object, k: object, v: object, change: object = None) -> object:
    scores = tnp.einsum("qd,kd->qk", q, k)
    return tnp.softmax(scores if change is None else change(scores), axis=-1) @ v  # type: ignore[operator]


def traced(change: object = None) -> Graph:
    return trace(lambda q, k, v: attention(q, k, v, change), half(40, 32), half(4096, 32), half(4096, 64))


def test_attention_is_one() -> None:
    step = step_of(graphs.attention((2, 3, 40, 72, 32)))
    assert step is not None
    assert "scores[b, h, i, j]" == repr(step.scores)


@pytest.mark.parametrize(
    ("change", "scale"),
    [
        (lambda s: s / 8, 0.125),
        (lambda s: 2.0 * s, 2.0),
        (lambda s: 30 * tnp.tanh(s / 30), 30.0),
        (lambda s: tnp.where(tnp.arange(40)[:, None] >= tnp.arange(4096), s / 8, -tnp.inf), 0.125),
        (lambda s: s / 8 + tnp.arange(4096), 1.0),
        (lambda s: s * -0.5, 1.0),
    ],
)
def test_a_positive_factor_is_the_scale(change: object, scale: float) -> None:
    step = step_of(traced(change))
    assert step is not None
    assert scale == step.scale


def test_what_else_reads_the_statistics_forbids_it() -> None:
    def both(q: object, k: object, v: object) -> object:
        scores = tnp.einsum("qd,kd->qk", q, k)
        return tnp.softmax(scores, axis=-1) @ v, tnp.logsumexp(scores, axis=-1)  # type: ignore[operator]

    graph = trace(both, half(40, 32), half(4096, 32), half(4096, 64))
    assert step_of(graph) is None


def test_other_sums_are_none() -> None:
    assert step_of(graphs.matmul(70, 50, 90)) is None
