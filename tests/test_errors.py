"""How errors render, and how they find their place."""

import warnings
from pathlib import Path

import pytest

import tilelang
from tilelang import errors
from tilelang.dtypes import as_dtype
from tilelang.errors import NOWHERE, Loc, Note, ProgramError, TileLangError, UnknownName, nearest


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "kernel.py"
    path.write_text("def kernel():\n    T.copy(A_s, B_s)\n    T.clear(\n        C_f)\n")
    return str(path)


def test_an_error_shows_its_message_place_notes_and_hint(source: str) -> None:
    error = ProgramError(
        "T.copy: 'A_s' is (64, 32) but 'B_s' is (32, 32)",
        loc=Loc(source, 2, 4, 2, 20),
        notes=(Note("'B_s' is allocated here", Loc(source, 1, 0, 1, 3)), Note("no place")),
        hint="pass equal extents",
    )
    expected = (
        "T.copy: 'A_s' is (64, 32) but 'B_s' is (32, 32)\n"
        f" --> {source}:2:5\n"
        "2 |     T.copy(A_s, B_s)\n"
        "  |     ^^^^^^^^^^^^^^^^\n"
        "note: 'B_s' is allocated here\n"
        f" --> {source}:1:1\n"
        "1 | def kernel():\n"
        "  | ^^^\n"
        "note: no place\n"
        "hint: pass equal extents"
    )
    assert expected == str(error)


def test_a_warning_reads_like_an_error_and_is_shown_once_for_its_place(source: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            errors.warn("T.copy: slow", Loc(source, 2, 4, 2, 20), hint="do it differently")
    (warning,) = caught
    assert (errors.ProgramWarning, source, 2) == (warning.category, warning.filename, warning.lineno)
    assert str(warning.message) == (
        f"T.copy: slow\n --> {source}:2:5\n2 |     T.copy(A_s, B_s)\n  |     ^^^^^^^^^^^^^^^^\nhint: do it differently"
    )


def test_a_place_over_several_lines_is_marked_to_the_end_of_the_first(source: str) -> None:
    assert Loc(source, 3, 4, 4, 12).render().endswith("3 |     T.clear(\n  |     ^^^^^^^^")


def test_a_macro_call_shows_the_chain_of_callers(source: str) -> None:
    text = Loc(source, 2, 4, 2, 20, caller=Loc(source, 1, 4, 1, 10)).render()
    assert text.index(f"{source}:2:5") < text.index("called from") < text.index(f"{source}:1:5")


def test_a_place_without_its_file_still_names_it() -> None:
    assert " --> gone.py:7:1" == Loc("gone.py", 7).render()
    assert "gone.py:7" == str(Loc("gone.py", 7))


def test_nowhere_renders_nothing() -> None:
    assert "" == NOWHERE.render()
    assert "<unknown>" == str(NOWHERE)


def test_an_error_without_a_place_shows_the_line_that_called_the_package(calling_line: None) -> None:
    with pytest.raises(TileLangError) as caught:
        as_dtype("no such dtype")
    first, where, line, _ = str(caught.value).splitlines()
    assert "dtype: unknown name 'no such dtype'" == first
    assert "test_errors.py:" in where
    assert line.endswith('as_dtype("no such dtype")')


def test_the_innermost_place_marks_an_error_that_passes() -> None:
    inner, outer = Loc("a.py", 2), Loc("a.py", 1)
    with pytest.raises(ProgramError) as caught, outer, inner:
        raise ProgramError("message")
    assert inner is caught.value.loc


def test_an_error_with_a_place_keeps_it() -> None:
    own = Loc("a.py", 5)
    with pytest.raises(ProgramError) as caught, Loc("a.py", 1):
        raise ProgramError("message", loc=own)
    assert own is caught.value.loc


def test_other_exceptions_pass_a_place_untouched() -> None:
    with pytest.raises(KeyError), Loc("a.py", 1):
        raise KeyError("x")


def test_recursion_without_end_below_a_place_is_told_in_the_users_words() -> None:
    with pytest.raises(ProgramError, match="nested too deeply") as caught, Loc("kernel.py", 3):
        raise RecursionError
    assert Loc("kernel.py", 3) == caught.value.loc
    with pytest.raises(RecursionError), NOWHERE:
        raise RecursionError


def test_every_error_is_a_tilelang_error_and_says_what_it_is() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(classes) > 10
    for cls in classes:
        assert issubclass(cls, TileLangError | errors.ProgramWarning)
        assert cls.__doc__


def test_an_unknown_name_answers_hasattr_and_imports() -> None:
    assert issubclass(errors.UnknownAttribute, UnknownName) and issubclass(errors.UnknownAttribute, AttributeError)
    assert issubclass(errors.UnknownModule, UnknownName) and issubclass(errors.UnknownModule, ImportError)
    assert not hasattr(tilelang, "no_such_name") and not hasattr(tilelang.language, "no_such_name")


BUILTINS = {  # what else programs may catch an error as
    errors.StagingTypeError: (errors.StagingError, TypeError),
    errors.StagingValueError: (errors.StagingError, ValueError),
    errors.StagingAssertionError: (errors.StagingError, AssertionError),
    errors.StagingRuntimeError: (errors.StagingError, RuntimeError),
    errors.JITNoBuilderError: (errors.StagingError, RuntimeError),
    errors.ProgramValueError: (ProgramError, ValueError),
    errors.ProgramTypeError: (ProgramError, TypeError),
    errors.ProgramAssertionError: (ProgramError, AssertionError),
    errors.ProgramRuntimeError: (ProgramError, RuntimeError),
    errors.ProgramIndexError: (ProgramError, IndexError),
    errors.ProgramNotImplementedError: (ProgramError, NotImplementedError),
    errors.ProgramSizeError: (ProgramError, AssertionError, ValueError),
    errors.ProgramSliceError: (ProgramError, RuntimeError, ValueError),
    errors.ProgramLaneError: (ProgramError, TypeError, ValueError, IndexError),
    errors.NoLowering: (RuntimeError,),
    errors.LayoutConflict: (ValueError,),
    errors.ResourceError: (RuntimeError,),
    errors.ArgumentError: (RuntimeError, ValueError, TypeError),
    errors.OptionError: (ValueError,),
    errors.DTypeError: (errors.OptionError, ValueError, TypeError),
    errors.TargetError: (errors.OptionError, ValueError, AssertionError),
    errors.DeviceAssertError: (RuntimeError,),
    errors.ToolchainError: (RuntimeError,),
    errors.DriverError: (RuntimeError,),
    errors.TuningError: (RuntimeError,),
}


@pytest.mark.parametrize("kind", BUILTINS, ids=lambda kind: kind.__name__)
def test_an_error_is_also_the_builtin_one_and_keeps_its_text(kind: type[TileLangError]) -> None:
    for builtin in BUILTINS[kind]:
        with pytest.raises(builtin) as caught:
            raise kind("message", loc=Loc("gone.py", 7), hint="write x")
        assert "message\n --> gone.py:7:1\nhint: write x" == str(caught.value)


def test_another_exception_is_told_as_the_staging_error_that_is_caught_where_it_would_have_been() -> None:
    kinds = {
        TypeError: errors.StagingTypeError,
        UnicodeError: errors.StagingValueError,
        AssertionError: errors.StagingAssertionError,
        NotImplementedError: errors.StagingRuntimeError,
        OSError: errors.StagingError,
    }
    assert list(kinds.values()) == [errors.staging_error_kind(kind()) for kind in kinds]


def test_the_nearest_name_is_suggested_if_one_is_like_it() -> None:
    known = ("block_M", "block_N", "threads")
    assert ("block_M", "threads", "") == (nearest("lock_M", known), nearest("thread", known), nearest("xyz", known))
    assert ("", "threads") == (nearest("tres", known, 0.9), nearest("tres", known, 0.5))
