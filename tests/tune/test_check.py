from typing import Any

import numpy as np
import pytest
from tunable import FakeKernel, twice

from tilelang.errors import TuningError
from tilelang.tune import check
from tilelang.tune.check import MajorityVote, Tolerances, difference

EXACT = Tolerances(0, 0, 0)
A = np.arange(16, dtype=np.float32)


# -- running -------------------------------------------------------------------------------------------------
def test_a_kernel_is_run_on_its_inputs() -> None:
    kernel = FakeKernel(seconds=0.01)
    outcome = check.run(kernel, [A])
    assert ["B"] == [name for name, _ in outcome.results]
    np.testing.assert_array_equal(outcome.results[0][1], A * 2)
    assert 0.01 <= outcome.seconds < 1
    assert 2 == len(kernel.calls)


def test_unwritten_outputs_are_not_correct_by_chance() -> None:
    kernel = FakeKernel(lambda a: (a * 2)[:10])
    (_, found), = check.run(kernel, [A]).results
    assert np.isnan(found[10:]).all()
    assert "'B': 6 of 16 elements are NaN or not written, the first at (10,)" == difference(
        [("B", found)], [("B", A * 2)], Tolerances(max_mismatched_ratio=1)
    )


def test_arguments_that_are_written_are_copies() -> None:
    mine = A.copy()
    kernel = FakeKernel(in_place=True)
    outcome = check.run(kernel, [mine])
    assert ([], ["A"]) == (outcome.results, [name for name, _ in outcome.written])
    np.testing.assert_array_equal(outcome.written[0][1], A * 2)
    np.testing.assert_array_equal(mine, A)


def test_arrays_of_any_framework_are_filled_with_nan() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (np.float16, np.float64, np.int8):
        array = np.zeros((2, 3), dtype)
        assert check._fill_with_nan(array)
        assert (array != 0).all()
    tensor = torch.zeros((), dtype=torch.bfloat16)
    assert check._fill_with_nan(tensor)
    assert bool(tensor.isnan())
    assert not check._fill_with_nan(np.zeros(2, bool))
    assert not check._fill_with_nan(3)


# -- references ----------------------------------------------------------------------------------------------
def test_a_reference_computes_the_expected_results() -> None:
    (name, right), = check.expected(twice, FakeKernel(), [A])
    assert "B" == name
    np.testing.assert_array_equal(right, A * 2)


def test_a_reference_may_write_in_place() -> None:
    def ref(a: np.ndarray) -> None:
        a *= 2

    mine = A.copy()
    (name, right), = check.expected(ref, FakeKernel(in_place=True), [mine])
    np.testing.assert_array_equal(right, A * 2)
    np.testing.assert_array_equal(mine, A)


def test_results_that_the_reference_omits_are_not_compared() -> None:
    assert [] == check.expected(lambda a: None, FakeKernel(in_place=True), [A])  # it left the argument as it was
    assert [] == check.expected(lambda a: [None], FakeKernel(), [A])


def test_a_reference_that_fails_is_named() -> None:
    def wrong(a: Any) -> None:
        raise ValueError("no such file")

    with pytest.raises(TuningError) as caught:
        check.expected(wrong, FakeKernel(), [A])
    assert (
        "autotune: the reference 'wrong' failed: ValueError: no such file\n"
        "hint: it is called with the inputs of the kernel, A, and returns what the kernel returns"
    ) == str(caught.value)


def test_a_reference_with_other_results_is_refused() -> None:
    with pytest.raises(TuningError) as caught:
        check.expected(lambda a: (a, a), FakeKernel(), [A])
    assert (
        "autotune: the reference returns 2 results, the kernel 1 result\n"
        "hint: let it return what the kernel returns, in the same order"
    ) == str(caught.value)


# -- comparing -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_results_are_compared_within_tolerances(framework: str) -> None:
    make: Any = np.asarray if framework == "numpy" else pytest.importorskip("torch").from_numpy

    def compare(found: np.ndarray, tolerances: Tolerances) -> str:
        return difference([("B", make(found))], [("B", make(A))], tolerances)

    assert "" == compare(A.copy(), EXACT)
    assert "" == compare(A * 1.001, Tolerances())
    off = A.copy()
    off[3] = 7
    assert "" == compare(off, Tolerances(max_mismatched_ratio=0.1))
    assert (
        "'B': 1 of 16 elements differ (6.25%) with rtol=0, atol=0; the worst is at (3,): found 7.0, expected 3.0"
    ) == compare(off, EXACT)
    off[3] = np.nan
    assert "'B': 1 of 16 elements are NaN or not written, the first at (3,)" == compare(
        off, Tolerances(max_mismatched_ratio=1)
    )
    assert "'B': found has shape (4,), expected has shape (16,)" == compare(A[:4].copy(), EXACT)


def test_expected_nan_is_correct() -> None:
    right = np.array([np.nan, 1.0])
    assert "" == difference([("B", right)], [("B", right.copy())], EXACT)


# -- without a reference -------------------------------------------------------------------------------------
def agreement(*results: np.ndarray) -> MajorityVote:
    found = MajorityVote(EXACT)
    for number, array in enumerate(results):
        found.add({"x": number}, [("B", array)])
    return found


def test_the_majority_is_correct() -> None:
    rejected = agreement(A + 1, A, A.copy(), A.copy()).rejections("scale")
    assert [{"x": 0}] == [rejection.config for rejection in rejected]
    assert (
        "not what 3 of 4 configurations compute: 'B': 16 of 16 elements differ (100.00%) with rtol=0, atol=0; the worst "
        "is at (0,): found 1.0, expected 0.0"
    ) == rejected[0].message


def test_all_agree_or_there_is_only_one() -> None:
    assert [] == agreement(A, A.copy()).rejections("scale")
    assert [] == agreement(A).rejections("scale")


def test_without_a_majority_a_reference_is_needed() -> None:
    with pytest.raises(TuningError) as caught:
        agreement(A, A[::-1].copy()).rejections("scale")
    assert (
        "autotune: the configurations of 'scale' disagree about the result, and there is no reference: x=0 and "
        "x=1: 'B': 16 of 16 elements differ (100.00%) with rtol=0, atol=0; the worst is at (0,): found 15.0, expected "
        "0.0\n"
        "hint: pass ref_prog=, larger tolerances rtol= and atol=, or skip_check=True"
    ) == str(caught.value)
