from typing import Any

import pytest
from tunable import double, subject_of

from tilelang.jit.options import JitOptions
from tilelang.tune.executors import SubjectMessage
from tilelang.tune.rank import expected_seconds, expected_seconds_remote, has_rates, rejection_text
from tilelang.tune.subject import Subject
from tilelang.tune.workers import Failure

GPU = {"kind": "cuda", "arch": "sm_90a"}


def scaling(n: int, target: Any = GPU) -> Subject:
    return subject_of(double, n, options=JitOptions(target=target))


def test_configurations_have_times_without_being_compiled() -> None:
    subject = scaling(1 << 24)
    few, many = (expected_seconds(subject, {"block": block}) for block in (16, 1024))
    assert 0 < many < few


def test_what_is_sent_has_the_same_time() -> None:
    subject = scaling(1 << 20)
    assert expected_seconds(subject, {"block": 64}) == expected_seconds_remote(SubjectMessage.of(subject), {"block": 64})


def test_what_cannot_be_lowered_is_a_failure() -> None:
    found = expected_seconds_remote(SubjectMessage.of(scaling(64)), {"block": "wide"})
    assert isinstance(found, Failure)


@pytest.mark.parametrize(("target", "known"), [(GPU, True), ("cpu", False), ({"kind": "cuda", "arch": "sm_80"}, False)])
def test_machines_that_the_model_knows(target: Any, known: bool) -> None:
    assert known == has_rates(scaling(8, target).target)


def test_the_reason_says_what_was_predicted() -> None:
    assert "predicted 41 us, which is place 6, and the first 5 are measured" == rejection_text(41e-6, 6, 5)
