"""The arrays in which matrix instructions add up products, by the unit that executes them."""

from tilelang.analysis.matrix_results import matrix_results
from tilelang.dtypes import INT32, SCALARS
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import as_expr, const
from tilelang.ir.stmt import CallStmt, If, Seq, Store
from tilelang.targets.nvidia.isa.async_units import WGMMA
from tilelang.targets.nvidia.isa.mma import ATOMS, mma
from tilelang.targets.nvidia.isa.wgmma import WGMMA_FENCE

SUMS, VIEWED, OPERAND = (Buffer(name, (as_expr(64),), SCALARS["float32"], Scope.LOCAL) for name in ("sums", "viewed", "operand"))
VIEW = Buffer("view", (as_expr(8), as_expr(8)), SCALARS["float32"], Scope.LOCAL, view_of=VIEWED)


def multiply(buffer):
    part = Region(buffer, tuple(const(0, INT32) for _ in buffer.shape), tuple(as_expr(1) for _ in buffer.shape))
    read = Region(OPERAND, (const(0, INT32),), (as_expr(4),))
    return CallStmt(mma(ATOMS[0]), (part, read, read), (read, part), (part,))


def test_results_are_found_in_branches_and_by_their_storage():
    body = Seq((multiply(SUMS), If(as_expr(1) > 0, multiply(VIEW)), Store(OPERAND, (const(0, INT32),), const(0, SCALARS["float32"]))))
    assert {SUMS, VIEWED} == matrix_results(body, None)


def test_those_of_another_unit_are_not():
    assert set() == matrix_results(Seq((multiply(SUMS), CallStmt(WGMMA_FENCE, ()))), WGMMA)
