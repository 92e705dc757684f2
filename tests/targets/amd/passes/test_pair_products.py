"""Products of two registers by one instruction: where functions of single numbers follow."""

import numpy as np
import pytest
from gpu import assert_simulates, lower_func
from hip_text import assembly_of, needs_clang, printed

import tilelang.language as T
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk
from tilelang.targets.amd.isa.packed_math import MULTIPLY_ADD_PAIR

FORMS = {
    "minus": lambda x, a, b, other: T.exp2(x * a - b),
    "plus": lambda x, a, b, other: T.exp2(b + a * x),
    "from": lambda x, a, b, other: T.exp2(b - x * a),
    "twice": lambda x, a, b, other: T.exp2(x * a - b) + x,
    "largest": lambda x, a, b, other: T.max(x * a + b * a, 0.0),
}
OTHERS = {
    "all that is stored": lambda x, a, b, other: x * a - b,
    "two registers": lambda x, a, b, other: T.exp2(x * other - b),
    "no product": lambda x, a, b, other: T.exp2(x - b),
    "no sum": lambda x, a, b, other: T.exp2(x * a),
    "an addend of its own": lambda x, a, b, other: T.exp2(x * a - other),
}


def program(form, dtype="float32", columns=256):
    """Rows, of which each thread has several neighbors, by a form of these, of two numbers and of other rows."""
    function = {**FORMS, **OTHERS}[form]

    @T.prim_func
    def main(A: T.Tensor((4, columns), dtype), B: T.Tensor((4, columns), dtype), N: T.Tensor((2,), dtype), C: T.Tensor((4, columns), dtype)):
        with T.Kernel(1, threads=64):
            x, other = T.alloc_fragment((4, columns), dtype), T.alloc_fragment((4, columns), dtype)
            numbers = T.alloc_local((2,), dtype)
            T.copy(A, x)
            T.copy(B, other)
            numbers[0] = N[0]
            numbers[1] = N[1]
            for i, j in T.Parallel(4, columns):
                x[i, j] = function(x[i, j], numbers[0], numbers[1], other[i, j])
            T.copy(x, C)

    rng = np.random.default_rng(0)
    shapes = ((4, columns), (4, columns), (2,), (4, columns))
    return main, [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def pairs(func, arch):
    return sum(isinstance(s, CallStmt) and s.routine is MULTIPLY_ADD_PAIR for s in walk(lower_func(func, arch).body))


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("form", FORMS)
def test_two_registers_are_multiplied_at_a_time(form, arch):
    func, arrays = program(form)
    assert 1 == pairs(func, arch)
    assert_simulates(func, *arrays, arch=arch, seeds=(0,))


@pytest.mark.parametrize("form", OTHERS)
def test_other_expressions_stay(form):
    func, arrays = program(form)
    assert 0 == pairs(func, "gfx942")
    assert_simulates(func, *arrays, arch="gfx942", seeds=(0,))


@pytest.mark.parametrize(
    ("options", "arch"), [({}, "gfx1100"), ({"dtype": "float64"}, "gfx942"), ({"dtype": "float16"}, "gfx942"), ({"columns": 16}, "gfx942")]
)
def test_other_machines_and_numbers_and_single_registers_stay(options, arch):
    assert 0 == pairs(program("minus", **options)[0], arch)


@needs_clang
def test_compilers_multiply_the_pairs_together():
    text = printed(program("minus")[0], "gfx942").text
    assert 8 == assembly_of(text, "gfx942").count("v_pk_fma_f32")
