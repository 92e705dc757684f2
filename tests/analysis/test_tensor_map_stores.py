"""Tensors that instructions write through maps."""

from tensor_copies import plan_of, tensor_map
from thread_kernels import buffer, index

from tilelang.analysis.tensor_map_stores import stored_by_tensor_maps
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import as_expr
from tilelang.ir.stmt import CallStmt, Launch, Seq
from tilelang.isa.instruction import Instruction
from tilelang.targets.nvidia.isa.tma import tma_reduce, tma_store

LOAD = Instruction("load", {}, {}, print)
A, B, C = (buffer(name, (64,), "float32") for name in "ABC")
TILE = Region(buffer("tile", (64,), "float32", Scope.SHARED), (as_expr(0),), (as_expr(64),))
OF_A, OF_B, OF_C = (tensor_map(tensor, (64,)) for tensor in (A, B, C))


def launch(*calls):
    return Launch((index("bx"),), (as_expr(1),), (32, 1, 1), Seq(calls), plan=plan_of(OF_A, OF_B, OF_C))


def test_instructions_say_which_argument_is_the_map_that_they_write_through():
    calls = [CallStmt(LOAD, (OF_A.var,))]
    calls += [CallStmt(store, (one.var, TILE, as_expr(0))) for store, one in ((tma_store(1), OF_B), (tma_reduce(1, "add"), OF_C))]
    assert {B, C} == stored_by_tensor_maps(launch(*calls))
    assert set() == stored_by_tensor_maps(launch(calls[0]))


def test_launches_without_maps_write_through_none():
    plain = Launch((index("bx"),), (as_expr(1),), (32, 1, 1), Seq(()))
    assert frozenset() == stored_by_tensor_maps(plain)
