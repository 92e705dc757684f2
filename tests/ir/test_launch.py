"""Shared memory of layouts, and tensor maps of launches."""

import pytest

from tilelang.dtypes import FLOAT32, INT32, SCALARS
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, const
from tilelang.ir.func import Level, PrimFunc, TensorParam
from tilelang.ir.launch import LaunchPlan, TensorMap
from tilelang.ir.stmt import CallStmt, Launch
from tilelang.ir.verify import verify
from tilelang.layout.shared_memory import padded
from tilelang.saved_schedule import Placement, ScheduleOverrides
from tilelang.targets.nvidia.isa.tma import TMA_PREFETCH_MAP


def buffer(*shape):
    return Buffer("S", tuple(const(e, INT32) for e in shape), FLOAT32, Scope.SHARED)


def test_the_elements_of_a_shared_buffer_include_padding_and_versions():
    plain, ring = buffer(4, 8), buffer(3, 4, 8)
    plan = LaunchPlan(shared_layouts=((ring, padded((4, 8), 2)),))
    assert 32 == plan.shared_elements(plain)
    assert 3 * (3 * 10 + 8) == plan.shared_elements(ring)


def test_the_schedule_of_a_launch_has_the_placements_of_its_loops():
    loop = Placement((0, 1), (0, 1))
    assert ScheduleOverrides(specialized=False, loops=(loop, None)) == LaunchPlan(placements=(loop, None)).overrides


def test_shared_memory_has_constant_shapes():
    symbolic = Buffer("S", (Var("n", INT32, index=True),), FLOAT32, Scope.SHARED)
    with pytest.raises(CompilerBug, match="'S' has a symbolic shape"):
        LaunchPlan().shared_elements(symbolic)


def test_the_tensor_maps_of_a_launch_are_visible_in_it():
    tensor = Buffer("A", (const(64, INT32),), FLOAT32, Scope.GLOBAL)
    var = Var("A_map", SCALARS["uint64"])
    tensor_map = TensorMap(var, tensor, tensor.shape, (), (64,), 0, lambda *numbers: "")

    def program(*maps):
        call = CallStmt(TMA_PREFETCH_MAP, (var,))
        block = Var("bx", INT32, index=True)
        launch = Launch((block,), (const(1, INT32),), (32, 1, 1), call, plan=LaunchPlan(tensor_maps=maps))
        return PrimFunc("f", (TensorParam(tensor),), launch, Level.THREAD)

    verify(program(tensor_map))
    with pytest.raises(CompilerBug, match="'A_map' is never defined"):
        verify(program())
