"""What arguments say about symbols, and what does not fit."""

import numpy as np
import pytest

from tilelang.dtypes import as_dtype
from tilelang.errors import ArgumentError
from tilelang.ir.expr import cast

FLOAT = as_dtype("float32")


def zeros(*shape):
    return np.zeros(shape, np.float32)


def refused(program, *arguments):
    with pytest.raises(ArgumentError) as error:
        program.run(*arguments)
    return error.value.message


def test_symbols_are_bound_from_shapes_in_any_order(program):
    n = program.symbol("n")
    program.tensor("twice", (n * 2,))
    program.tensor("once", (n,))
    out = program.tensor("out", (1,))
    program.store(out, (0,), cast(n, FLOAT))
    result = zeros(1)
    program.run(zeros(6), zeros(3), result)
    assert 3 == result[0]


def test_symbols_are_bound_from_strides(program):
    s, t = program.symbol("s"), program.symbol("t")
    a, out = program.tensor("A", (2, 3), strides=(s, t)), program.tensor("out", (3,), "int32")
    program.store(out, (0,), s)
    program.store(out, (1,), t)
    program.store(out, (2,), program.load(a, 1, 2))
    result = np.zeros(3, np.int32)
    program.run(np.arange(24, dtype="f").reshape(4, 6)[::2, ::2], result)
    assert [12, 2, 16] == result.tolist()


def test_scalars_are_converted(program):
    n, x, flag = (
        program.scalar("n", "int32", index=True),
        program.scalar("x", "float16"),
        program.scalar("flag", "bool"),
    )
    out = program.tensor("out", (3,))
    for at, value in enumerate((n, x, flag)):
        program.store(out, (at,), value)
    result = zeros(3)
    program.run(5, 0.1, True, result)
    assert [5, float(np.float16(0.1)), 1] == result.tolist()


def test_the_number_of_arguments(program):
    program.tensor("A", (1,))
    assert "kernel: expected 1 arguments, got 0" == refused(program)


def test_extents_that_contradict_each_other(program):
    n = program.symbol("n")
    program.tensor("A", (n,))
    program.tensor("B", (n, 4))
    assert "argument 'B': dimension 0: expected 3, got 5" == refused(program, zeros(3), zeros(5, 4))
    assert "argument 'B': dimension 1: expected 4, got 1" == refused(program, zeros(3), zeros(3, 1))


def test_dtype_rank_and_kind(program):
    program.tensor("A", (4,))
    assert "argument 'A': expected dtype float32, got float64" == refused(program, np.zeros(4))
    assert "argument 'A': expected 1 dimensions, got 2" == refused(program, zeros(4, 1))
    assert "argument 'A': expected a NumPy array, got int" == refused(program, 3)


def test_strides_that_do_not_fit(program):
    program.tensor("A", (2, 3), strides=(3, 1))
    assert "argument 'A': stride 0: expected 3, got 1" == refused(program, zeros(3, 2).T)


def test_the_stride_of_a_single_element_says_nothing(program):
    program.tensor("A", (1, 3), strides=(64, 1))
    program.run(zeros(1, 3))


def test_the_strides_of_an_empty_array_say_nothing(program):
    program.tensor("A", (5, 0), strides=(64, 1))
    program.run(zeros(5, 0))


def test_a_symbol_that_no_argument_gives(program):
    n = program.symbol("n")
    program.tensor("A", (n + 2,))
    assert "kernel: no argument determines 'n'" == refused(program, zeros(4))
