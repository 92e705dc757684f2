"""Loads of parallel loops as loops of their own."""

import pytest

import tilelang.language as T
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Load
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import ParallelLoop
from tilelang.ir.visit import walk
from tilelang.schedule.separate_loads import SeparateLoads
from tilelang.schedule.split_copies import copied_load


def rows(form="row"):
    """A loop that gathers rows."""

    @T.prim_func
    def main(A: T.Tensor((24, 64), "float16"), index: T.Tensor((16,), "int32"), C: T.Tensor((16, 64), "float16")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((16, 64), "float16")
            for i, j in T.Parallel(16, 64):
                if form == "row":
                    tile[i, j] = A[index[i], j]
                elif form == "named":
                    row = index[i]
                    tile[i, j] = T.if_then_else(row >= 0, A[row, j], 0)
                elif form == "along":
                    tile[i, j] = A[index[j % 16], j]
                elif form == "constant":
                    tile[i, j] = A[index[3], j]
            T.copy(tile, C)

    return next(s for s in walk(main.body) if isinstance(s, ParallelLoop))


def copied(store):
    return copied_load(store.value)


def texts(separate):
    """The bodies of the loops that fill fragments, and of the loop that is left."""
    return [to_text(loop).splitlines()[-1].strip() for loop in (*separate.loads, separate.loop)]


@pytest.mark.parametrize("form", ["row", "named"])
def test_indices_of_rows_are_loaded_once_for_each_row(form):
    separate = SeparateLoads(rows(form), copied)
    (alloc,) = separate.allocations()
    assert ("index_rows", (16,), Scope.FRAGMENT) == (alloc.buffer.name, alloc.buffer.static_shape, alloc.buffer.scope)
    (load,) = separate.loads
    assert [16] == [int(extent.value) for extent in load.extents]


def test_the_loop_finds_them_in_registers():
    assert ["index_rows[i] = index[i]", "tile[i, j] = A[index_rows[i], j]"] == texts(SeparateLoads(rows(), copied))


@pytest.mark.parametrize("form", ["along", "constant"])
def test_what_selects_no_rows_stays(form):
    assert [] == SeparateLoads(rows(form), copied).loads


def test_without_a_load_that_is_kept_all_are_separate():
    filled, left = texts(SeparateLoads(rows()))
    assert "A_next[i, j] = A[index[i], j]" == filled
    assert "tile[i, j] = A_next[i, j]" == left


def test_the_loop_may_fill_another_tile():
    loop = rows()
    other = SeparateLoads(rows(), copied).allocations()[0].buffer
    made = SeparateLoads(loop, copied, other).loop
    assert other is made.body.buffer
    assert isinstance(made.body.value, Load)
