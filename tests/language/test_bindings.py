"""Names without a value: every use of them is an error that says so."""

import numpy as np
import pytest

from tilelang.dtypes import DType
from tilelang.errors import ProgramError
from tilelang.ir.expr import as_expr
from tilelang.language.bindings import MISSING, Poison, Undeclared, is_number, number_dtype, read


@pytest.mark.parametrize(
    "use",
    [
        lambda p: p + 1,
        lambda p: 1 - p,
        lambda p: p < 2,
        lambda p: p == 2,
        lambda p: -p,
        lambda p: p[0],
        lambda p: p.shape,
        lambda p: f"{p}",
        lambda p: bool(p),
        lambda p: list(p),
        lambda p: p(),
        as_expr,
    ],
)
def test_every_use_of_a_poisoned_name_is_an_error(use):
    with pytest.raises(ProgramError, match="'x' has no value here: it is assigned only inside the loop above"):
        use(Poison("x", "loop"))


def test_an_undeclared_name_cannot_be_read():
    with pytest.raises(ProgramError, match="'y' is used before it is assigned"):
        as_expr(Undeclared("y", []))


def test_reading_an_unbound_name_gives_missing():
    def unbound():
        if MISSING is None:
            value = 1
        return lambda: value

    assert read(unbound()) is MISSING
    assert read(None) is MISSING
    assert 3 == read(lambda: 3)


def test_plain_numbers_and_their_dtypes():
    assert all(is_number(v) for v in (1, 2.5, True, np.float32(1), np.int64(3)))
    assert not any(is_number(v) for v in ("1", None, [1], np.zeros(3)))
    dtypes = [number_dtype(v) for v in (True, 1, 2**40, 1.5, np.bool_(True), np.int8(1))]
    assert [DType(n) for n in ("bool", "int32", "int64", "float32", "bool", "int32")] == dtypes
