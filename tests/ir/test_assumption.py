from tilelang.dtypes import BOOL, INT32
from tilelang.errors import Loc
from tilelang.ir.assumption import Assume, assume, loaded_buffers, of_all_iterations
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Var, const
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Bind

I = Var("i", INT32, index=True)
N = Var("N", INT32, index=True)
HERE = Loc("program.py", 3)


def test_an_assumption_binds_an_unused_name() -> None:
    made = assume(N > 3, HERE)
    assert isinstance(made, Bind)
    assert (BOOL, HERE, "T.assume(N > 3)") == (made.var.dtype, made.loc, to_text(made).strip())
    assert made.var is not assume(N > 3, HERE).var


def test_loaded_buffers_are_storages() -> None:
    table = Buffer("table", (const(8, INT32),), INT32, Scope.SHARED)
    view = Buffer("view", (const(8, INT32),), INT32, Scope.SHARED, view_of=table)
    assert frozenset((table,)) == loaded_buffers((Load(view, (I,), INT32) > 3) & (Load(table, (I,), INT32) < N))
    assert frozenset() == loaded_buffers(I < N)


def test_assumptions_are_instantiated_per_iteration() -> None:
    made = of_all_iterations(assume(I + 4 < N, HERE), I, 3)
    assert ["4 < N", "5 < N", "6 < N"] == [to_text(each.value) for each in made]
    assert all(isinstance(each, Assume) and each.loc is HERE for each in made)
    whole = assume(N > 3, HERE)
    assert (whole,) == of_all_iterations(whole, I, 3)
