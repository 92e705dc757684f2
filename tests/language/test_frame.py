"""Assignments, operators and statements of kernels, by what the reference interpreter computes."""

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import ProgramError, StagingError
from tilelang.sim.tile_interp import run_reference


def ints(*values):
    return np.array(values, dtype=np.int32)


def out(n, dtype=np.int32):
    return np.zeros(n, dtype)


def test_a_scalar_rebound_in_a_loop_keeps_its_value_across_iterations():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((2,), "int32")):
        with T.Kernel(1) as bx:
            total = 0
            last = 7
            for i in T.serial(4):
                total = total + A[i]
                last = A[i]
            B[0] = total
            B[1] = last

    b = out(2)
    run_reference(main, [ints(1, 2, 3, 4), b])
    assert [10, 4] == b.tolist()


def test_a_name_assigned_before_a_loop_that_runs_zero_times_keeps_its_value():
    @T.prim_func
    def main(n: T.int32, B: T.Tensor((1,), "int32")):
        with T.Kernel(1) as bx:
            x = T.int32(5)
            for i in T.serial(n):
                x = i
            B[0] = x

    b = out(1)
    run_reference(main, [0, b])
    assert [5] == b.tolist()
    run_reference(main, [3, b])
    assert [2] == b.tolist()


def test_tuple_assignment_swaps_elements_and_scalars():
    @T.prim_func
    def main(A: T.Tensor((2,), "int32"), B: T.Tensor((2,), "int32")):
        with T.Kernel(1) as bx:
            A[0], A[1] = A[1], A[0]
            x = T.alloc_var("int32", 3)
            y = T.alloc_var("int32", 4)
            x, y = y, x
            B[0] = x
            B[1] = y

    a, b = ints(1, 2), out(2)
    run_reference(main, [a, b])
    assert ([2, 1], [4, 3]) == (a.tolist(), b.tolist())


def test_a_scalar_allocated_just_before_is_read_before_it_changes():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            x = T.int32(0)
            y = T.alloc_var("int32", init=7)
            y, x = x, y
            z = T.alloc_var("int32", init=3)
            before = z
            z += 1
            A[0] = x
            A[1] = y
            A[2] = before
            A[3] = z

    a = out(4)
    run_reference(main, [a])
    assert [7, 0, 3, 4] == a.tolist()


def test_another_name_for_a_loop_variable_may_be_rebound():
    @T.macro
    def twice(p):
        p = p * 2
        return p

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.serial(4):
                r = i
                for _ in T.serial(2):
                    r = r + 10
                A[i] = r + twice(i)

    a = out(4)
    run_reference(main, [a])
    assert [20, 23, 26, 29] == a.tolist()


def test_a_value_is_read_when_it_is_assigned():
    @T.prim_func
    def main(A: T.Tensor((2,), "int32")):
        with T.Kernel(1) as bx:
            old = A[0]
            A[0] = 9
            A[1] = old

    a = ints(1, 2)
    run_reference(main, [a])
    assert [9, 1] == a.tolist()


def test_both_sides_of_a_branch_may_introduce_a_name():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1) as bx:
            for i in T.serial(4):
                if A[i] % 2 == 0:
                    y = A[i] * 10
                elif A[i] > 2:
                    y = -A[i]
                else:
                    y = 100
                A[i] = y

    a = ints(1, 2, 3, 4)
    run_reference(main, [a])
    assert [100, 20, -3, 40] == a.tolist()


def test_a_branch_rebinds_a_scalar_of_the_outside():
    @T.prim_func
    def main(n: T.int32, A: T.Tensor((1,), "int32")):
        with T.Kernel(1) as bx:
            x = 1
            if n > 3:
                x = 2
            A[0] = x

    a = out(1)
    for n, expected in ((3, 1), (4, 2)):
        run_reference(main, [n, a])
        assert [expected] == a.tolist()


def test_while_break_and_continue():
    @T.prim_func
    def main(A: T.Tensor((1,), "int32")):
        with T.Kernel(1) as bx:
            i = T.int32(0)
            total = 0
            while True and i < 100:
                i += 1
                if i % 2 == 0:
                    continue
                if i > 9:
                    break
                total += i
            A[0] = total

    a = out(1)
    run_reference(main, [a])
    assert [1 + 3 + 5 + 7 + 9] == a.tolist()


def test_compile_time_loops_and_branches_run_in_python():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1) as bx:
            for position, value in enumerate([5, 6, 7]):
                if value == 6:
                    continue
                A[position] = value
                if position == 2:
                    break
            names = [f"{v}" for v in (1, 2) if v > 1]
            A[3] = len(names) if names else 9

    a = out(4)
    run_reference(main, [a])
    assert [5, 0, 7, 1] == a.tolist()


def test_logic_ternaries_and_chained_comparisons():
    @T.prim_func
    def main(A: T.Tensor((6,), "int32")):
        with T.Kernel(1) as bx:
            for i in T.serial(6):
                inside = 1 <= i < 4
                A[i] = (2 if i == 3 else 1) if inside and not i == 2 or i == 5 else 0

    a = out(6)
    run_reference(main, [a])
    assert [0, 1, 0, 2, 0, 1] == a.tolist()


def test_and_does_not_evaluate_its_right_side_needlessly():
    @T.prim_func
    def main(A: T.Tensor((3,), "int32"), B: T.Tensor((5,), "int32")):
        with T.Kernel(1) as bx:
            S = T.alloc_shared((3,), "int32")
            T.copy(A, S)
            for i in T.serial(5):
                B[i] = 1 if i < 3 and S[i] > 1 else 0

    b = out(5)
    run_reference(main, [ints(1, 2, 3), b])
    assert [0, 1, 1, 0, 0] == b.tolist()


@T.macro
def counted(calls, value):
    calls[0] += 1
    return value


def test_the_condition_of_a_while_is_evaluated_before_each_iteration():
    @T.prim_func
    def main(A: T.Tensor((2,), "int32"), n: T.int32):
        with T.Kernel(1):
            x = T.int32(0)
            while counted(A, x) < n:
                x += 1
                if x == 9:
                    continue
            A[1] = x

    for n, expected in ((5, [6, 5]), (0, [1, 0]), (12, [13, 12])):
        a = out(2)
        run_reference(main, [a, n])
        assert expected == a.tolist()


def test_what_an_operand_does_happens_only_where_it_is_evaluated():
    @T.prim_func
    def main(A: T.Tensor((1,), "int32"), B: T.Tensor((3, 4), "int32")):
        with T.Kernel(1):
            for i in T.serial(4):
                if i > 1 and counted(A, i) == 3:
                    B[0, i] = 1
                if i < 3 or counted(A, i) == 7:
                    B[1, i] = 1
                B[2, i] = counted(A, 10) + i if i < 1 else (counted(A, 20) if 1 < i < counted(A, 3) else i)

    a, b = out(1), np.zeros((3, 4), np.int32)
    run_reference(main, [a, b])
    assert [2 + 1 + 1 + (2 + 1)] == a.tolist()
    assert [[0, 0, 0, 1], [1, 1, 1, 0], [10, 1, 20, 3]] == b.tolist()


def test_a_chained_comparison_with_effects_in_its_middle_is_an_error():
    with pytest.raises(StagingError, match="an operand with effects in the middle of a chained comparison"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                if 0 < A[0] < counted(A, 1) < 5:
                    A[1] = 2


def test_a_name_that_lives_only_inside_a_loop_is_an_error_after_it():
    with pytest.raises(ProgramError) as caught:

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                for i in T.serial(4):
                    x = A[i]
                A[0] = x + 1

    assert "'x' has no value here: it is assigned only inside the loop above" in str(caught.value)
    assert "A[0] = x + 1" in str(caught.value)


def test_a_loop_variable_is_an_error_after_its_loop():
    with pytest.raises(ProgramError, match="'i' has no value here"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                for i in T.serial(4):
                    A[i] = 0
                A[i] = 1


def test_assigning_a_loop_variable_is_an_error():
    with pytest.raises(ProgramError) as caught:

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                for i in T.serial(4):
                    i = i + 1

    line = caught.value.loc.line
    assert (
        "the loop variable 'i' cannot be assigned\n"
        f"{' ' * len(str(line))}--> {__file__}:{line}:21\n"
        f"{line} |                     i = i + 1\n"
        f"{' ' * len(str(line))} |                     ^^^^^^^^^\n"
        "hint: use another name: `i_ = i + ...`; to skip iterations use `continue` or a step"
    ) == str(caught.value)


def test_use_before_assignment_is_an_error():
    with pytest.raises(StagingError, match="'x' is used before it is assigned"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                A[0] = x  # noqa: F821
                x = 1


def test_an_unknown_name_is_an_error():
    with pytest.raises(StagingError, match="the name 'undefined_name' is not defined"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                A[0] = undefined_name  # noqa: F821


def test_an_integer_scalar_does_not_silently_lose_a_fraction():
    with pytest.raises(ProgramError, match="'total' is int32 and would lose the fraction of a float32 value"):

        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1) as bx:
                total = 0
                for i in T.serial(4):
                    total = total + A[i]


def test_a_buffer_cannot_be_rebound_in_a_loop():
    with pytest.raises(ProgramError, match="'S' is bound outside of this loop or branch and cannot be rebound"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                S = T.alloc_shared((4,), "int32")
                R = T.alloc_shared((4,), "int32")
                for i in T.serial(4):
                    T.copy(A, S)
                    S = R


def test_a_static_assert_fails_at_once_and_a_staged_one_when_the_kernel_runs():
    with pytest.raises(ProgramError, match="assertion failed: tile must be even"):

        @T.prim_func
        def bad(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                tile = 3
                assert tile % 2 == 0, "tile must be even"

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1) as bx:
            assert A[0] > 0, "A[0] must be positive"

    run_reference(main, [ints(1, 1, 1, 1)])
    with pytest.raises(Exception, match=r"A\[0\] must be positive"):
        run_reference(main, [ints(0, 1, 1, 1)])


def test_return_inside_a_kernel_is_an_error():
    with pytest.raises(StagingError, match="`return` inside a kernel, a staged loop or a staged branch"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                if A[0] > 0:
                    return


def test_an_exception_of_a_helper_names_the_kernel_line():
    def helper(x):
        return 1 // 0

    with pytest.raises(StagingError) as caught:

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                A[0] = helper(A[1])

    assert "ZeroDivisionError while the kernel was staged" in str(caught.value)
    assert "A[0] = helper(A[1])" in str(caught.value)


def test_a_staged_value_has_no_truth_value_in_a_plain_helper():
    def helper(x):
        return 1 if x > 0 else 2

    with pytest.raises(StagingError, match="mark the helper @T.macro"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                A[0] = helper(A[1])


def test_a_python_list_cannot_be_indexed_by_a_loop_variable():
    with pytest.raises(StagingError, match=r"for i in tuple\(range\(n\)\)"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                values = [1, 2, 3, 4]
                for i in range(4):
                    A[i] = values[i]
