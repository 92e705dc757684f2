"""The stager: names, places, and which values are fixed by an assignment."""

import pytest

from tilelang.dtypes import FLOAT32, INT32
from tilelang.errors import Loc, ProgramError, StagingError
from tilelang.ir.expr import Var, const
from tilelang.ir.stmt import Bind, Store
from tilelang.language.stage import Hints, Stager, current, is_mutable, reads_memory, staging


def test_nothing_is_staged_outside_of_a_kernel():
    with pytest.raises(StagingError, match="T.copy: may only be used inside a kernel"):
        current("T.copy")


def test_names_are_made_unique():
    stager = Stager()
    assert ["x", "x_1", "y", "x_2"] == [stager.unique(n) for n in ("x", "x", "y", "x")]
    stager.targets = ("tile",)
    assert ("tile", "tile_1") == (stager.suggest("buffer"), stager.suggest("buffer"))
    stager.targets = ("a", "b")
    assert "buffer" == stager.suggest("buffer")


def test_only_values_that_may_change_are_bound():
    stager = Stager()
    n = Var("n", INT32, index=True)
    assert stager.bind("x", n) is n
    sum_ = n + 1
    assert stager.bind("x", sum_) is sum_  # outside of a kernel nothing changes memory
    stager.hints = Hints()
    bound = stager.bind("x", sum_)
    assert isinstance(bound, Var)
    assert bound.is_index
    assert isinstance(stager.statements[-1], Bind)


def test_mutable_scalars_are_stores_and_loads():
    stager = Stager()
    x = stager.mutable("x", FLOAT32, 0)
    assert is_mutable(x)
    assert reads_memory(x + 1)
    assert stager.in_scope(x.buffer)
    stager.assign_mutable(x, const(2, INT32))
    store = stager.statements[-1]
    assert isinstance(store, Store)
    assert FLOAT32 == store.value.dtype


def test_a_block_that_ended_takes_its_scalars_along():
    stager = Stager()
    with stager.block():
        x = stager.mutable("x", FLOAT32, 0)
        assert stager.in_scope(x.buffer)
    assert not stager.in_scope(x.buffer)


def test_errors_leave_with_the_current_place():
    here = Loc("kernel.py", 3, 4, 3, 9)
    stager = Stager(here)
    with pytest.raises(ProgramError) as caught, staging(stager):
        raise ProgramError("wrong")
    assert here == caught.value.loc
    with pytest.raises(StagingError, match="ValueError while the kernel was staged: no") as caught, staging(stager):
        raise ValueError("no")
    assert here == caught.value.loc
    with pytest.raises(StagingError, match="recurses without end"), staging(stager):
        raise RecursionError
