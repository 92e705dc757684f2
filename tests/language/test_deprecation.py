import warnings

import pytest

from tilelang.language import deprecation
from tilelang.language.deprecation import warn_deprecated


def test_an_old_name_is_told_once_and_where_it_stands(monkeypatch: pytest.MonkeyPatch, calling_line: None) -> None:
    monkeypatch.setattr(deprecation, "_TOLD", set())
    with pytest.warns(DeprecationWarning) as caught:
        warn_deprecated("T.old", "write T.new")
        warn_deprecated("T.old", "write T.new")
        warn_deprecated("T.older", "leave it out")
    told = ["T.old is deprecated; write T.new", "T.older is deprecated; leave it out"]
    assert told == [str(w.message) for w in caught]
    assert [__file__] * 2 == [w.filename for w in caught]


def test_a_warning_without_a_line_of_the_program_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecation, "_TOLD", set())
    monkeypatch.setattr(deprecation, "calling_line", lambda: None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_deprecated("T.old", "write T.new")
    assert 1 == len(caught)
