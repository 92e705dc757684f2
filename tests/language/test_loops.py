"""Loops: what each spelling visits, and what it refuses."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError, StagingError
from tilelang.sim.tile_interp import run_reference


def visited(make_loop, size=64):
    """The values that a loop's single variable takes, in order."""

    @T.prim_func
    def main(A: T.Tensor((size,), "int32"), n: T.int32):
        with T.Kernel(1) as bx:
            at = T.int32(0)
            for i in make_loop(n):
                A[at] = i
                at += 1

    a = np.full(size, -99, np.int32)
    run_reference(main, [a, 5])
    return [v for v in a.tolist() if v != -99]


@pytest.mark.parametrize(
    ("make_loop", "expected"),
    [
        (lambda n: T.serial(n), [0, 1, 2, 3, 4]),
        (lambda n: T.serial(2, n), [2, 3, 4]),
        (lambda n: T.serial(1, n, 2), [1, 3]),
        (lambda n: T.serial(n, 0, -1), [5, 4, 3, 2, 1]),
        (lambda n: T.serial(n, 0, -2), [5, 3, 1]),
        (lambda n: T.serial(n, n), []),
        (lambda n: T.serial(9, n), []),
        (lambda n: T.unroll(3), [0, 1, 2]),
        (lambda n: T.unroll(1, 4, unroll_factor=2), [1, 2, 3]),
        (lambda n: T.vectorized(4), [0, 1, 2, 3]),
        (lambda n: T.Parallel(n), [0, 1, 2, 3, 4]),
        (lambda n: T.parallel(3), [0, 1, 2]),
        (lambda n: T.parallel(4, 7), [4, 5, 6]),
        (lambda n: T.parallel(start=3, stop=n), [3, 4]),
        (lambda n: T.parallel(7, 4), []),
        (lambda n: T.Pipelined(n, num_stages=2), [0, 1, 2, 3, 4]),
        (lambda n: T.Pipelined(2, n, num_stages=2), [2, 3, 4]),
        (lambda n: T.pipelined(3), [0, 1, 2]),
        (lambda n: T.Serial(2), [0, 1]),
        (lambda n: T.grid(3), [0, 1, 2]),
    ],
)
def test_loops_visit_what_python_would(make_loop, expected):
    assert expected == visited(make_loop)


def test_grids_and_parallel_nests_run_in_row_major_order():
    @T.prim_func
    def main(A: T.Tensor((12,), "int32")):
        with T.Kernel(1) as bx:
            at = T.int32(0)
            for i, j in T.grid(2, 3):
                A[at] = i * 10 + j
                at += 1
            for index in T.Parallel(2, 3):
                A[at] = index[0] * 10 + index[1]
                at += 1

    a = np.zeros(12, np.int32)
    run_reference(main, [a])
    assert [0, 1, 2, 10, 11, 12] * 2 == a.tolist()


def test_a_zero_step_and_a_factor_beside_explicit_are_value_errors():
    for make in (lambda: T.serial(0, 4, step=0), lambda: T.unroll(4, explicit=True, unroll_factor=2)):
        with pytest.raises(ValueError, match=r"T\.(serial|unroll)"):
            make()


def test_options_that_steer_are_taken_and_change_nothing():
    @T.prim_func
    def main(A: T.Tensor((12,), "int32"), n: T.int32):
        with T.Kernel(1) as bx:
            for i in T.parallel(2, 4, annotations={"key": 1}):
                A[i] += 1
            for i in T.Parallel(3, prefer_async=True, annotations={"coalesced_width": 2, "unknown": 0}):
                A[i + 4] += 1
            for i in T.Pipelined(7, 9, num_stages=2, annotations={"key": 1}):
                A[i] += 1
            for i in T.Persistent([3], 1, bx, None, 2, annotations={}):
                A[i + 9] += 1
            for i in T.serial(start=3, stop=-1, step=-2, annotations={}):
                A[i] += 10
            for i in T.unroll(0, stop=4, step=2, unroll_factor=2, annotations={}):
                A[i] += 100
            for i in T.parallel(n, n + 3):
                A[i] += 1000

    a = np.zeros(12, np.int32)
    run_reference(main, [a, 9])
    assert [100, 10, 101, 11, 1, 1, 1, 1, 1, 1001, 1001, 1001] == a.tolist()


@pytest.mark.parametrize("backend", ["reference", "cc", "simulator"])
def test_persistent_loops_over_sizes_of_64_bits(backend):
    m, n = T.dynamic("m", "int64"), T.dynamic("n", "int64")
    dtypes = []

    @T.prim_func
    def main(A: T.Tensor((m, n), "int32"), B: T.Tensor((m, n), "int32")):
        with T.Kernel(3) as block:
            for y, x in T.Persistent([m, n], 3, block, group_size=2):
                dtypes.extend((str(y.dtype), str(x.dtype)))
                A[y, x] += y * 10 + x
                B[y, x] = y

    assert ["int64", "int64"] == dtypes
    target = "sm_80" if backend == "simulator" else "auto"
    a, b = np.zeros((2, 5, 4), np.int32)
    tilelang.compile(main, target=target, execution_backend=backend)(a, b)
    rows, columns = np.ogrid[:5, :4]
    np.testing.assert_array_equal(rows * 10 + columns, a)
    np.testing.assert_array_equal(rows + 0 * columns, b)


def test_bounds_are_fixed_on_entry():
    @T.prim_func
    def main(A: T.Tensor((1,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1) as bx:
            for i in T.serial(A[0]):
                A[0] = 0
                B[0] += 1

    a, b = np.array([3], np.int32), np.zeros(1, np.int32)
    run_reference(main, [a, b])
    assert 3 == b[0]


def test_a_pipeline_block_pipelines_the_loop_inside():
    from tilelang.ir.stmt import For, ForKind
    from tilelang.ir.visit import walk

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1) as bx:
            with T.pipeline(num_stages=3):
                for k in range(4):
                    A[k] = k
            for k in range(2):
                A[k] = 5

    kinds = [(s.kind, s.pipeline.num_stages if s.pipeline else 0) for s in walk(main.body) if isinstance(s, For)]
    assert [(ForKind.PIPELINED, 3), (ForKind.SERIAL, 0)] == kinds


@pytest.mark.parametrize(
    ("make_loop", "message"),
    [
        (lambda: T.serial(1.5), "T.serial: bounds must be integers, got 1.5"),
        (lambda: T.serial(0, 4, 0), "T.serial: the step must not be 0"),
        (lambda: T.unroll(4, explicit=True, unroll_factor=2), "T.unroll: explicit=True writes out all iterations"),
        (lambda: T.Persistent([4], 2, 0, num_stages=-1), "num_stages must be an integer >= 0, got -1"),
        (lambda: T.Parallel(), "T.Parallel: needs at least one extent"),
        (lambda: T.Pipelined(4, num_stages=-1), "num_stages must be an integer >= 0, got -1"),
        (lambda: T.Pipelined(4, num_stages=True), "num_stages must be an integer >= 0, got True"),
        (lambda: T.Pipelined(4, order=[0, 1], stage=[0, "x"]), r"stage must have an integer for each statement, got \[0, 'x'\]"),
        (lambda: T.Pipelined(4, order=[True, 0]), r"order must have an integer for each statement, got \[True, 0\]"),
        (lambda: T.serial(T.float32(3)), "T.serial: bounds must be integers, got float32"),
    ],
)
def test_wrong_bounds_are_errors(make_loop, message):
    with pytest.raises(ProgramError, match=message):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                for i in make_loop():
                    A[0] = 1


def test_a_step_must_be_a_constant():
    with pytest.raises(ProgramError, match="the step must be a constant"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32"), n: T.int32):
            with T.Kernel(1) as bx:
                for i in range(0, 4, n):
                    A[i] = 1


def test_loop_variables_must_match_the_extents():
    with pytest.raises(StagingError, match="T.Parallel has 3 loop variables, but the `for` names 2"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                for i, j in T.Parallel(1, 2, 3):
                    A[i] = 1


def test_a_pipeline_block_without_a_loop_is_an_error():
    with pytest.raises(ProgramError, match="T.pipeline: there is no loop inside"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                with T.pipeline(num_stages=2):
                    A[0] = 1


def test_places_given_to_groups_are_not_taken_for_places_of_statements():
    loop = T.Pipelined(4, num_stages=2, order=[-1, 0], stage=[-1, 0], group=[[0], [1, 2]])
    assert (2, None, None) == (loop.pipeline.num_stages, loop.pipeline.order, loop.pipeline.stage)
