"""What memory holds in the meaning of the language: new, undefined, out of bounds, viewed."""


import numpy as np
import pytest

from tilelang.dtypes import as_dtype
from tilelang.errors import OutOfBounds, ReadBeforeWrite, SimulationError
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import as_expr, cast
from tilelang.ir.stmt import LaunchHints
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm


def zeros(*shape, dtype="float32"):
    return np.zeros(shape, as_dtype(dtype).numpy)


def test_an_allocation_in_a_loop_is_new_in_every_iteration(program):
    out = program.tensor("out", (1,))
    with program.launch(1), program.serial(0, 2) as i:
        acc = program.alloc("acc", (1,), scope=Scope.FRAGMENT)
        with program.branch(i == 0):
            program.store(acc, (0,), 1.0)
        program.store(out, (0,), program.load(acc, 0))
    with pytest.raises(ReadBeforeWrite) as error:
        program.run(zeros(1))
    assert "acc[0] is read before anything was written there" == error.value.message
    assert 4 == error.value.loc.line


def test_every_block_has_its_own_on_chip_memory(program):
    out = program.tensor("out", (2,))
    with program.launch(2) as (bx,):
        shared = program.alloc("S", (1,))
        with program.branch(bx == 0):
            program.store(shared, (0,), 1.0)
        program.store(out, (bx,), program.load(shared, 0))
    with pytest.raises(ReadBeforeWrite, match=r"S\[0\] is read before anything was written there"):
        program.run(zeros(2))


def test_accumulating_into_a_fragment_that_was_not_cleared_is_reported(program):
    a, c = program.tensor("A", (4, 4)), program.tensor("C", (4, 4))
    with program.launch(1):
        a_s, c_f = program.alloc("A_s", (4, 4)), program.alloc("C_f", (4, 4), scope=Scope.FRAGMENT)
        program.emit(Copy(program.region(a), program.region(a_s)))
        program.emit(Gemm(program.region(a_s), program.region(a_s), program.region(c_f)))
        program.emit(Copy(program.region(c_f), program.region(c)))
    with pytest.raises(ReadBeforeWrite) as error:
        program.run(zeros(4, 4), zeros(4, 4))
    assert "C_f[0, 0] is read before anything was written there" == error.value.message
    assert "write all of it first, for example with T.clear(C_f)" == error.value.hint
    assert 4 == error.value.loc.line


def test_moving_undefined_contents_is_no_read_of_them(program):
    out = program.tensor("out", (4,))
    with program.launch(1):
        half, copy = program.alloc("half", (4,)), program.alloc("copy", (4,), "float16", Scope.FRAGMENT)
        with program.parallel(2) as (i,):
            program.store(half, (i,), 3.0)
        program.emit(Copy(program.region(half), program.region(copy)))
        with program.parallel(4) as (i,):
            program.store(out, (i,), program.load(copy, i))
    result = zeros(4)
    with pytest.raises(ReadBeforeWrite, match=r"copy\[2\] is read before anything was written there"):
        program.run(result)
    assert [3, 3] == result[:2].tolist()


def test_a_mutable_scalar_without_a_first_value_is_undefined(program):
    out = program.tensor("out", (1,))
    with program.launch(1):
        x = program.var("x")
        program.store(out, (0,), program.load(x))
    with pytest.raises(ReadBeforeWrite) as error:
        program.run(zeros(1))
    assert "x is read before anything was written there" == error.value.message
    assert "give it a first value: x = T.alloc_var(dtype, init=0)" == error.value.hint


def test_a_workspace_is_undefined_until_it_is_written(program):
    out = program.tensor("out", (1,))
    work = program.alloc("work", (1,), scope=Scope.GLOBAL)
    with program.launch(1):
        program.store(out, (0,), program.load(work, 0))
    with pytest.raises(ReadBeforeWrite, match="a workspace is undefined until a kernel writes it"):
        program.run(zeros(1))


def test_global_accesses_out_of_bounds_read_zero_and_drop(program):
    a, out = program.tensor("A", (3,)), program.tensor("out", (5,))
    with program.launch(1), program.parallel(9) as (i,):
        program.store(out, (i - 2,), program.load(a, i - 3) + 1)
    result = np.full(5, 9, "f")
    program.run(np.array([4, 5, 6], "f"), result)
    assert [1, 5, 6, 7, 1] == result.tolist()


def test_safe_values_are_read_out_of_bounds(program):
    a, out = program.tensor("A", (2, 2)), program.tensor("out", (2, 4))
    with program.launch(1, hints=LaunchHints(safe_values=((a, as_expr(-7)),))):
        tile = program.alloc("tile", (1, 4))
        program.emit(Copy(program.region(a, (0, 1), (0, 4)), program.region(tile)))
        program.emit(Copy(program.region(tile), program.region(out, (0, 1), (0, 4))))
        with program.parallel(4) as (i,):
            program.store(out, (1, i), program.load(a, 1, i - 1))
    result = zeros(2, 4)
    program.run(np.array([[1, 2], [3, 4]], "f"), result)
    assert [[1, 2, -7, -7], [-7, 3, 4, -7]] == result.tolist()


def test_safe_values_end_with_their_launch(program):
    a, out = program.tensor("A", (1,)), program.tensor("out", (1,))
    with program.launch(1, hints=LaunchHints(safe_values=((a, as_expr(-7)),))):
        program.store(out, (0,), program.load(a, 5))
    with program.launch(1):
        program.store(out, (0,), program.load(out, 0) + program.load(a, 5))
    result = zeros(1)
    program.run(zeros(1), result)
    assert -7 == result[0]


@pytest.mark.parametrize("index", [-1, 4])
def test_on_chip_accesses_out_of_bounds_are_reported(program, index):
    n = program.scalar("n", "int32", index=True)
    with program.launch(1):
        shared = program.alloc("S", (2, 4))
        program.store(shared, (1, n), 0.0)
    with pytest.raises(OutOfBounds) as error:
        program.run(index)
    assert f"S[1, {index}]: index {index} is outside dimension 1, which has extent 4" == error.value.message
    assert 2 == error.value.loc.line


def test_a_tile_that_leaves_an_on_chip_buffer_is_reported(program):
    a = program.tensor("A", (8,))
    with program.launch(1):
        shared = program.alloc("S", (4,))
        program.emit(Copy(program.region(a, (0, 3)), program.region(shared, (2, 3))))
    with pytest.raises(OutOfBounds, match=r"S\[4\]: index 4 is outside dimension 0, which has extent 4"):
        program.run(zeros(8))


def test_views_share_bytes(program):
    out = program.tensor("out", (4,), "uint32")
    with program.launch(1):
        words = program.alloc("words", (2, 2))
        bits = program.view(words, "bits", (4,), "uint32")
        with program.parallel(2, 2) as (i, j):
            program.store(words, (i, j), 1.0)
        program.store(bits, (3,), as_expr(7))
        program.emit(Copy(program.region(bits), program.region(out)))
    result = zeros(4, dtype="uint32")
    program.run(result)
    assert [0x3F800000] * 3 + [7] == result.tolist()


def test_views_of_narrower_elements_know_which_are_defined(program):
    out = program.tensor("out", (1,), "int32")
    with program.launch(1):
        words = program.alloc("words", (1,), "int32")
        halves = program.view(words, "halves", (2,), "int16")
        program.store(halves, (0,), 5)
        program.store(out, (0,), program.load(halves, 0))
        program.store(out, (0,), program.load(words, 0))
    result = zeros(1, dtype="int32")
    with pytest.raises(ReadBeforeWrite, match=r"words\[0\]"):
        program.run(result)
    assert 5 == result[0]


def test_a_view_of_a_fresh_buffer_is_fresh(program):
    out = program.tensor("out", (2,), "int32")
    with program.launch(1), program.serial(0, 2) as i:
        words = program.alloc("words", (1,))
        bits = program.view(words, "bits", (1,), "int32")
        program.store(bits, (0,), i)
        program.store(out, (i,), program.load(bits, 0))
        program.store(words, (0,), 1.0)
    result = zeros(2, dtype="int32")
    program.run(result)
    assert [0, 1] == result.tolist()


def test_views_of_global_memory_write_the_argument(program):
    n = program.symbol("n")
    out = program.tensor("out", (n, 2))
    flat = program.view(out, "flat", (n * 2,), "float32")
    with program.launch(1), program.parallel(n * 2) as (i,):
        program.store(flat, (i,), cast(i, as_dtype("float32")))
    result = zeros(3, 2)
    program.run(result)
    assert [[0, 1], [2, 3], [4, 5]] == result.tolist()


def test_buffers_without_dimensions_and_without_elements(program):
    scalar, empty, out = program.tensor("s", ()), program.tensor("e", (0, 3)), program.tensor("out", (0, 3))
    with program.launch(1):
        program.store(scalar, (), program.load(scalar) + 1)
        tile = program.alloc("tile", (0, 3))
        program.emit(Copy(program.region(empty), program.region(tile)))
        program.emit(Copy(program.region(tile), program.region(out)))
    value = np.array(2, "f")
    program.run(value, zeros(0, 3), zeros(0, 3))
    assert 3 == value


def test_vectors_are_moved_as_a_whole(program):
    a, out = program.tensor("A", (3,), "float16x2"), program.tensor("out", (3,), "float16x2")
    with program.launch(1):
        tile = program.alloc("tile", (3,), "float16x2")
        program.emit(Copy(program.region(a), program.region(tile)))
        with program.parallel(3) as (i,):
            program.store(out, (2 - i,), program.load(tile, i))
    values = np.arange(6, dtype=np.float16).reshape(3, 2)
    result = zeros(3, 2, dtype="float16")
    program.run(values, result)
    np.testing.assert_array_equal(values[::-1], result)


def test_copies_whose_symbolic_extents_differ_are_reported(program):
    n = program.symbol("n")
    a, out = program.tensor("A", (n,)), program.tensor("out", (4,))
    with program.launch(1):
        program.emit(Copy(program.region(a), program.region(out)))
    with pytest.raises(SimulationError, match=r"'A' has extents \(3,\) but 'out' has \(4,\)"):
        program.run(zeros(3), zeros(4))


def test_a_negative_extent_is_empty(program):
    n = program.symbol("n")
    a, out = program.tensor("A", (n,)), program.tensor("out", (4,))
    with program.launch(1):
        program.emit(Copy(program.region(a, (0, n - 3)), program.region(out, (0, n - 3))))
    result = zeros(4)
    program.run(np.ones(2, "f"), result)
    program.run(np.ones(5, "f"), result)
    assert [1, 1, 0, 0] == result.tolist()
