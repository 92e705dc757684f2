"""What a plan says of the memory that its layouts take."""

import pytest

from tilelang.dtypes import FLOAT32, INT32
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, const
from tilelang.ir.launch import LaunchPlan
from tilelang.layout.memory import padded


def buffer(*shape):
    return Buffer("S", tuple(const(e, INT32) for e in shape), FLOAT32, Scope.SHARED)


def test_a_buffer_takes_its_shape_or_what_its_layout_reaches_once_per_version():
    plain, ring = buffer(4, 8), buffer(3, 4, 8)
    plan = LaunchPlan(shared_layouts=((ring, padded((4, 8), 2)),))
    assert 32 == plan.shared_elements(plain)
    assert 3 * (3 * 10 + 8) == plan.shared_elements(ring)


def test_shared_memory_has_constant_shapes():
    symbolic = Buffer("S", (Var("n", INT32, index=True),), FLOAT32, Scope.SHARED)
    with pytest.raises(CompilerBug, match="'S' has a symbolic shape"):
        LaunchPlan().shared_elements(symbolic)
