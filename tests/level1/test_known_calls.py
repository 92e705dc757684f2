"""Tests for tilelang.level1.known_calls."""

import numpy as np
import pytest

from tilelang.level1.known_calls import CallForm, form_of_call


def test_calls_of_a_form_differ_in_arrays_only() -> None:
    x, y = np.zeros(3, np.float32), np.zeros((2, 2), np.int8)
    assert form_of_call((x, 2), {"w": x}) == form_of_call((y, 2), {"w": y})
    others = [((x, 2), {}), ((x, 2.0), {"w": x}), ((x, True), {"w": x}), ((2, x), {"w": x}), ((x, 2), {"v": x})]
    forms = {form_of_call(args, keywords) for args, keywords in [*others, ((x, 2), {"w": x})]}
    assert len(others) + 1 == len(forms)


def test_the_environment_is_part_of_a_form(monkeypatch: pytest.MonkeyPatch) -> None:
    before = form_of_call((1,), {})
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
    assert before != form_of_call((1,), {})


def test_lists_have_no_form() -> None:
    assert form_of_call(([np.zeros(3)],), {}) is None


def test_computations_are_found_by_shapes_and_dtypes() -> None:
    form: CallForm[str] = CallForm(lambda given: given[:2], (True, False), "first")
    x, y = np.zeros(3, np.float32), np.zeros(4, np.float32)
    form.add((x, x), "second")
    assert ("second", "second", None, None) == (
        form.latest, form.find((x, y)), form.find((y, x)), form.find((x, x.astype(np.int8))),
    )  # fmt: skip
    form.add((y, x), "third")
    assert ("third", "second", "second") == (form.latest, form.find((x, x)), form.latest)
