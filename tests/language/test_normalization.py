"""`T.online_softmax`: what it emits, and errors at the user's line."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.language.stage import Stager
from tilelang.ops.online_softmax import OnlineSoftmax


def tiles():
    shapes = ((4, 8), (4, 16), (4,), (4,))
    return [T.alloc_fragment(shape, "float32") for shape in shapes]


def test_a_step_is_one_operator(stager: Stager) -> None:
    scores, output, row_max, row_sum = tiles()
    p = T.alloc_fragment((4, 8), "bfloat16")
    T.online_softmax(scores, output, row_max, row_sum)
    T.online_softmax(scores, output, row_max, row_sum, scale=0.25, probabilities=p)
    first, second = (x for x in stager.statements if isinstance(x, OnlineSoftmax))
    assert (1.0, None) == (first.scale.value, first.probabilities)
    assert (0.25, p.buffer) == (second.scale.value, second.probabilities.buffer)
    assert ["float32"] * 4 == [str(region.dtype) for region in second.reads()]


def test_wrong_operands_are_refused(stager: Stager) -> None:
    scores, output, row_max, row_sum = tiles()
    with pytest.raises(ProgramError, match=r"is \(4, 8\) but '.*' is \(8, 16\)"):
        T.online_softmax(scores, T.alloc_fragment((8, 16), "float32"), row_max, row_sum)
    with pytest.raises(ProgramError, match="scale is the tile '"):
        T.online_softmax(scores, output, row_max, row_sum, scale=row_max)
    with pytest.raises(ProgramError, match="an operand is None, not a place in memory"):
        T.online_softmax(scores, None, row_max, row_sum)


@pytest.mark.parametrize("way", [{"execution_backend": "reference"}, {"target": "cpu"}])
def test_the_scale_may_be_an_argument_and_scores_are_overwritten(way) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 16), "float32"), scale: T.float32, P: T.Tensor((4, 16), "float32")):
        with T.Kernel(1, threads=32) as _:
            scores = T.alloc_shared((4, 16), "float32")
            output = T.alloc_fragment((4, 2), "float32")
            row_max = T.alloc_fragment((4,), "float32")
            row_sum = T.alloc_fragment((4,), "float32")
            T.clear(output)
            T.clear(row_sum)
            T.fill(row_max, -T.infinity("float32"))
            T.copy(A, scores)
            T.online_softmax(scores, output, row_max, row_sum, scale)
            for i, j in T.Parallel(4, 16):
                P[i, j] = scores[i, j] / row_sum[i]

    a, p = np.random.default_rng(0).standard_normal((4, 16)).astype("f"), np.zeros((4, 16), "f")
    tilelang.compile(main, **way)(a, 2.0, p)
    exponentials = np.exp(2.0 * a)
    np.testing.assert_allclose(p, exponentials / exponentials.sum(axis=1, keepdims=True), rtol=1e-5)
