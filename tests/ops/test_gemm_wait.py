"""The wait for asynchronous gemms touches what they compute, and changes nothing."""

import tilelang.language as T
from tilelang.dtypes import SCALARS
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import const
from tilelang.lowering.regions import whole
from tilelang.ops.gemm_wait import GemmWait


def tile(name):
    size = const(16, SCALARS["int32"])
    return whole(Buffer(name, (size, size), SCALARS["float32"], Scope.FRAGMENT))


def test_results_are_touched_so_that_no_use_moves_across_and_what_is_computed_is_only_read():
    sums, exponentials = tile("C"), tile("S")
    wait = GemmWait(1, (sums,), (exponentials,))
    assert (sums, exponentials) == wait.reads()
    assert (sums,) == wait.writes()
    assert "wait for gemms" == wait.name


def test_its_reference_changes_nothing():
    wait = GemmWait(0, (tile("C"),))
    wait.check()
    assert wait.reference(None) is None
    assert not hasattr(T, "gemm_wait")  # the compiler writes it, no user
