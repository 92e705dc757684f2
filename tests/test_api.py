"""Wrong calls of public functions, and what their tracebacks show."""

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import tilelang
from tilelang.api import public
from tilelang.errors import ArgumentError, CompilerBug, OptionError


@public
def measure(
    name: str,
    rounds: int = 3,
    limit: float | None = None,
    *,
    verbose: bool = False,
    sizes: Sequence[int] = (),
    options: Mapping[str, object] | None = None,
    function: Callable[..., object] | None = None,
    path: str | Path = "",
    kind: Literal["fast", "slow"] = "fast",
    anything: Any = None,
) -> str:
    if rounds == 0:
        raise OptionError("measure: no rounds")
    if rounds == 1:
        raise KeyError("a bug")
    if function is not None:
        function()
    return name


@public
class Meter:
    def __init__(self, start: int) -> None:
        self.value = start

    def add(self, step: int) -> "Meter":
        return Meter(self.value + step)

    def _check(self) -> None:
        raise KeyError("not public")


def refused(call: Callable[[], object]) -> ArgumentError:
    with pytest.raises(ArgumentError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "measure: missing a required argument: 'name'"),
        ({"name": "a", "round": 3}, "measure: got an unexpected keyword argument 'round'"),
        ({"name": 3}, "measure: name is 3, not a string"),
        ({"name": "a", "rounds": "x"}, "measure: rounds is 'x', not an int"),
        ({"name": "a", "rounds": 1.5}, "measure: rounds is 1.5, not an int"),
        ({"name": "a", "limit": "x"}, "measure: limit is 'x', not a number or None"),
        ({"name": "a", "verbose": "x"}, "measure: verbose is 'x', not True or False"),
        ({"name": "a", "sizes": "x"}, "measure: sizes is 'x', not a list"),
        ({"name": "a", "options": []}, "measure: options is [], not a dict or None"),
        ({"name": "a", "function": 3}, "measure: function is 3, not a function or None"),
        ({"name": "a", "path": 3}, "measure: path is 3, not a string or a path"),
        ({"name": "a", "kind": "x"}, "measure: kind is 'x', not 'fast' or 'slow'"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(arguments: dict[str, Any], message: str) -> None:
    error = refused(lambda: measure(**arguments))
    assert message == error.message
    assert isinstance(error, TypeError)
    assert "measure(name, rounds=3, limit=None, *, verbose=False, sizes=(), options=None" in error.hint


def test_numbers_of_libraries_are_numbers() -> None:
    assert "a" == measure("a", np.int64(3), np.float32(1.5), verbose=np.bool_(True), sizes=np.arange(3))
    assert "a" == measure("a", np.int8(2), 3, path=Path("x"), kind="slow", anything=object())


def test_too_many_arguments_are_counted_and_the_near_keyword_is_named() -> None:
    assert "measure: too many positional arguments" == refused(lambda: measure("a", 1, 2, 3)).message  # type: ignore
    hint = refused(lambda: measure("a", verbos=True)).hint  # type: ignore[call-arg]
    assert hint.startswith("did you mean 'verbose'? the form is measure(")


def test_every_public_method_of_a_class_is_meant() -> None:
    assert "Meter: missing a required argument: 'start'" == refused(lambda: Meter()).message  # type: ignore[call-arg]
    assert "Meter.add: step is 'x', not an int" == refused(lambda: Meter(1).add("x")).message  # type: ignore[arg-type]
    assert "the form is Meter.add(step)" == refused(lambda: Meter(1).add()).hint  # type: ignore[call-arg]
    with pytest.raises(KeyError):
        Meter(1)._check()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a wrapper cannot leave a traceback before Python 3.11")
@pytest.mark.parametrize("arguments", [("a", 0), (3,), ()])
def test_a_traceback_ends_at_the_line_of_the_user(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(tilelang.TileLangError) as caught:
        measure(*arguments)
    assert [__file__] == [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert caught.value.__cause__ is None


def test_an_error_of_a_function_of_the_user_stays_what_it_is() -> None:
    def fails() -> None:
        int("x")

    with pytest.raises(ValueError, match="invalid literal") as caught:
        measure("a", function=fails)
    assert not isinstance(caught.value, tilelang.TileLangError)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "fails" == names[-1]


def test_anything_else_is_a_bug_of_ours_with_its_traceback() -> None:
    with pytest.raises(CompilerBug, match=r"measure\('a', 1\): KeyError: 'a bug'") as caught:
        measure("a", 1)
    assert isinstance(caught.value.__cause__, KeyError)
