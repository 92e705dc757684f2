"""Arrays with equal definitions are merged."""

import numpy as np
from array_functions import trace

import tilelang.numpy as tnp
from tilelang.level1.deduplicate import without_duplicates
from tilelang.level1.graph import Reduction


def reductions(*results: object) -> int:
    graph = without_duplicates(trace(lambda x: tuple(f(x) for f in results), np.zeros((4, 5), np.float32)))  # type: ignore[operator]
    return sum(isinstance(array.definition, Reduction) for array in graph.arrays)


def test_two_softmaxes_share_their_maximum_and_sum() -> None:
    assert 2 == reductions(lambda x: tnp.softmax(x, axis=-1), lambda x: tnp.logsumexp(x, axis=-1))


def test_other_axes_and_functions_are_kept_apart() -> None:
    assert 3 == reductions(lambda x: tnp.max(x, axis=0), lambda x: tnp.max(x, axis=1), lambda x: tnp.min(x, axis=1))
