"""Functions that combine values."""

import pytest

import tilelang.language as T
from tilelang.dtypes import FLOAT32, INT32
from tilelang.errors import ProgramError, ProgramTypeError, ProgramValueError
from tilelang.ir.printer import to_text
from tilelang.language.combining import as_many, as_tiles, combining
from tilelang.language.stage import Stager


def test_the_parameters_are_those_of_one_place_and_then_those_of_another(stager: Stager) -> None:
    variables, body = combining("f", lambda a, i, b, j: (a + b, T.max(i, j)), [FLOAT32, INT32])
    assert [("a0", FLOAT32), ("a1", INT32), ("b0", FLOAT32), ("b1", INT32)] == [(v.name, v.dtype) for v in variables]
    assert ["a0 + b0", "T.max(a1, b1)"] == [to_text(e) for e in body]
    assert [] == stager.statements


def test_what_is_no_such_function(stager: Stager) -> None:
    with pytest.raises(ProgramTypeError, match="f: 3 is no function of two values"):
        combining("f", 3, [FLOAT32])  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="has statements that the kernel runs"):
        combining("f", lambda a, b: T.alloc_var("float32", a) + b, [FLOAT32])


def test_one_tile_or_several(stager: Stager) -> None:
    s = T.alloc_shared((4,))
    assert ((s,), (s, s)) == (as_tiles("f", s), as_tiles("f", [s, s]))
    with pytest.raises(ProgramValueError, match="f: at least one tile is needed, got 0"):
        as_tiles("f", ())
    with pytest.raises(ProgramValueError, match="f: 2 tiles come in, but 1 go out"):
        as_many("f", [s.region, s.region], [s.region])
