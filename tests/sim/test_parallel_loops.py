import os
from unittest import mock

import numpy as np
import pytest
from random_kernels.checking import load
from random_kernels.outcomes import GENERATORS, draw

import tilelang.language as T
from tilelang.errors import TileLangError
from tilelang.sim.parallel_loops import ParallelLoops
from tilelang.sim.tile_interp import run_reference

WHOLE = os.environ.get("TILELANG_SLOW_TESTS") == "1"
RUN = ParallelLoops.run


def outcome(func, arguments, at_once):
    """The arguments after a run or the error, and which loops were executed at once."""
    done = []

    def run(self, loop, extents, races):
        done.append(at_once and RUN(self, loop, extents, races))
        return done[-1]

    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    with mock.patch.object(ParallelLoops, "run", run):
        try:
            run_reference(func, copies)
        except TileLangError as error:
            return str(error), done
    return [a.tobytes() if isinstance(a, np.ndarray) else a for a in copies], done


def check(func, *arguments, at_once=True):
    """All iterations at once give what they give one by one; says which loops were executed at once."""
    expected, _ = outcome(func, arguments, False)
    actual, done = outcome(func, arguments, True)
    assert expected == actual
    assert at_once == all(done)
    return actual


def ramp(*shape, dtype="float32"):
    return (np.arange(np.prod(shape)).reshape(shape) % 7 - 3).astype(dtype)


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("generator", [name for name in GENERATORS if name != "lanes"])
def test_random_programs_give_the_same(generator):
    """Of each generator two programs; with TILELANG_SLOW_TESTS=1 four."""
    for seed in range(4 if WHOLE else 2):
        program = draw(generator, seed)
        func = load(program.text)
        assert outcome(func, program.arguments, False)[0] == outcome(func, program.arguments, True)[0]


def test_conditions_guard_loads_and_stores():
    @T.prim_func
    def main(A: T.Tensor((50,), "float16"), B: T.Tensor((100,), "float16")):
        with T.Kernel(2) as bx:
            s = T.alloc_shared((50,), "float16")
            T.copy(A, s)
            for i in T.Parallel(64):
                if bx * 64 + i < 50:
                    x = s[bx * 64 + i] * 2
                    B[bx * 64 + i] = T.if_then_else(i > 0 and s[i - 1] > 0, s[i - 1] + x, x)
                else:
                    B[bx * 64 + i] = A[i] // 2

    check(main, ramp(50, dtype="float16"), ramp(100, dtype="float16"))


def test_each_iteration_has_its_own_variable():
    @T.prim_func
    def main(A: T.Tensor((64,), "int8"), B: T.Tensor((64,), "int8")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                x = T.alloc_var("int8", init=100)
                if A[i] > 0:
                    x = x + A[i] * 20
                B[i] = x

    check(main, ramp(64, dtype="int8"), ramp(64, dtype="int8"))


def test_a_variable_that_some_iterations_leave_undefined_is_an_error():
    @T.prim_func
    def main(A: T.Tensor((64,), "int8"), B: T.Tensor((64,), "int8")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                x = T.alloc_var("int8")
                if A[i] > 0:
                    x = A[i]
                B[i] = x

    array = ramp(64, dtype="int8")
    assert "x is read before anything was written there" in check(main, array, array, at_once=False)


def test_a_loop_with_an_error_stores_what_came_before_it():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), I: T.Tensor((64,), "int32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            s = T.alloc_shared((64,), "float32")
            T.copy(A, s)
            for i in T.Parallel(64):
                A[i] = 1
                B[i] = s[I[i]]

    places = np.arange(64, dtype=np.int32)
    check(main, ramp(64), places, ramp(64))
    places[40] = 64
    message = check(main, ramp(64), places, ramp(64), at_once=False)
    assert "s[64]: index 64 is outside dimension 0, which has extent 64" in message


def test_undefined_elements_are_errors():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            s = T.alloc_shared((64,), "float32")
            for i in T.Parallel(64):
                if i != 33:
                    s[i] = 1
            for i in T.Parallel(64):
                A[i] = s[i]

    assert "s[33] is read before anything was written there" in check(main, ramp(64), at_once=False)


def test_races_of_blocks_are_errors():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(2) as bx:
            for i in T.Parallel(32):
                A[i + bx * 16] = bx

    assert "A[16] is written by block 0 and written by block 1" in check(main, ramp(64), at_once=False)


def test_iterations_that_depend_on_their_order_run_one_by_one():
    @T.prim_func
    def main(A: T.Tensor((65,), "int32"), B: T.Tensor((64,), "int32"), C: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                A[i + 1] = A[i] + 1
            for i in T.Parallel(64):
                C[0] = C[0] + B[i]

    check(main, ramp(65, dtype="int32"), ramp(64, dtype="int32"), ramp(1, dtype="int32"), at_once=False)


def test_one_array_under_two_names_runs_one_by_one():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(63):
                B[i + 1] = A[i]

    for at_once, expected in ((True, 5), (False, 0)):
        array = np.arange(64, dtype=np.int32)
        other = array.copy() if at_once else array
        run_reference(main, [array, other])
        assert expected == other[6]


def test_index_arithmetic_beyond_64_bits_is_exact():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1):
            for i in T.Parallel(64):
                A[i] = (n * n * n + i) // n // n - n

    check(main, ramp(64, dtype="int32"), 2**31 - 1, at_once=False)
    check(main, ramp(64, dtype="int32"), 1000)


def test_several_iterations_may_store_to_one_element():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                A[i % 4] = i

    check(main, ramp(4, dtype="int32"))


def test_a_variable_may_be_unused():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for i, _ in T.Parallel(64, 2):
                A[i] = 3

    check(main, ramp(64, dtype="int32"))
