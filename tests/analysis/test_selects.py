"""Both values of a select are computed where one is expensive and they only access registers."""

from tilelang.analysis.selects import better_both, is_expensive, memory_loads
from tilelang.dtypes import FLOAT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, as_expr, const

ZERO = const(0.0, FLOAT32)


def element(scope):
    return Load(Buffer("b", (as_expr(4),), FLOAT32, scope), (as_expr(0),), FLOAT32)


def test_a_move_is_not_expensive():
    register = element(Scope.LOCAL)
    assert not is_expensive(register, ZERO)
    assert is_expensive(ZERO, register * 2.0)
    assert not better_both(register, ZERO)
    assert better_both(ZERO, register * 2.0)


def test_loads_from_memory_are_those_of_both_values_from_no_registers():
    register, shared, far = map(element, (Scope.LOCAL, Scope.SHARED, Scope.GLOBAL))
    assert [] == memory_loads(register * 2.0, ZERO)
    found = memory_loads(register * shared, far)
    assert [Scope.SHARED, Scope.GLOBAL] == [load.buffer.scope for load in found]
    assert not better_both(register * shared, ZERO)
