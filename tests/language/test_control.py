"""Loops and branches, plain and staged, nested in each other."""

from collections.abc import Callable

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import ProgramError, StagingError
from tilelang.ir.stmt import Alloc, For, If, While
from tilelang.ir.visit import walk
from tilelang.sim.tile_interp import run_reference


def test_a_plain_loop_inside_a_staged_one_is_unrolled_into_its_body():
    @T.prim_func
    def main(A: T.Tensor((6,), "int32")):
        with T.Kernel(1) as bx:
            for i in range(2):
                for offset in (0, 2, 4):
                    if offset == 2:
                        continue
                    A[i + offset] = i + 10 * offset

    a = np.zeros(6, np.int32)
    run_reference(main, [a])
    assert [0, 1, 0, 0, 40, 41] == a.tolist()


def test_a_branch_on_a_constant_expression_is_decided_while_staging():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1) as bx:
            if T.int32(3) > 2:
                name = A
            else:
                name = None
            name[0] = 7

    assert not [s for s in walk(main.body) if isinstance(s, If)]


def test_nested_branches_share_one_new_name():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1) as bx:
            for i in T.serial(8):
                if i % 2 == 0:
                    if i > 3:
                        x = i
                    else:
                        x = -i
                else:
                    x = 100 + i
                A[i] = x

    a = np.zeros(8, np.int32)
    run_reference(main, [a])
    assert [0, 101, -2, 103, 4, 105, 6, 107] == a.tolist()
    assert 1 == len([s for s in walk(main.body) if isinstance(s, Alloc)])


def test_a_while_loop_carries_what_it_changes():
    @T.prim_func
    def main(A: T.Tensor((1,), "int32"), n: T.int32):
        with T.Kernel(1) as bx:
            steps = 0
            x = n
            while x != 1:
                if x % 2 == 0:
                    x = x // 2
                else:
                    x = 3 * x + 1
                steps += 1
            A[0] = steps

    assert 1 == len([s for s in walk(main.body) if isinstance(s, While)])
    a = np.zeros(1, np.int32)
    run_reference(main, [a, 27])
    assert 111 == a[0]


def test_a_plain_while_loop_that_becomes_staged_is_an_error():
    with pytest.raises(StagingError, match="began as a plain Python value and became a staged one"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                i = 0
                values = [0]
                while values[-1] < 3:
                    values.append(A[i])
                    i += 1


def test_a_name_of_one_side_only_has_no_value_after_the_branch():
    with pytest.raises(ProgramError, match="'y' has no value here: it is assigned only inside the branch above"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                if A[0] > 0:
                    y = 1
                A[1] = y


@pytest.mark.parametrize("kind", [tuple, list, T.PersistentTileScheduler])
def test_each_branch_of_a_chain_binds_its_own_object(kind: type):
    def made(value: int) -> object:
        return kind(1, 1) if kind is T.PersistentTileScheduler else kind((value, value))

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(4) as bx:
            if bx < 1:
                each = made(5)
                A[bx] = 5
            elif bx < 2:
                each = made(6)
                for _ in T.serial(2):
                    A[bx] += 6
            elif bx < 3:
                if A[bx] == 0:
                    each = made(7)
                    A[bx] = 7
                else:
                    each = made(8)
            else:
                each = made(9)
                A[bx] = 9

    a = np.zeros(4, np.int32)
    run_reference(main, [a])
    assert [5, 12, 7, 9] == a.tolist()


def test_an_object_bound_before_a_branch_cannot_be_rebound_in_it():
    with pytest.raises(ProgramError, match="'each' is bound outside of this loop or branch and cannot be rebound"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(4) as bx:
                if bx < 1:
                    A[0] = 1
                else:
                    each = (1, 2)
                    if bx < 2:
                        each = (3, 4)
                    A[each[0]] = 1


@pytest.mark.parametrize("value", [lambda bx: 1, lambda bx: bx + 1, lambda bx: (bx,)])
def test_a_name_of_the_first_side_has_no_value_in_the_second(value: Callable[[object], object]):
    with pytest.raises(ProgramError, match="'x' has no value here: it is assigned only inside the branch above"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(4) as bx:
                if bx < 1:
                    x = value(bx)
                    A[0] = 1
                else:
                    A[1] = x


def test_a_name_may_be_used_again_by_a_later_loop():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1) as bx:
            for i in T.serial(2):
                x = A[i] + 1
                A[i] = x
            for i in T.serial(2):
                x = A[i] * 2
                A[i + 2] = x

    a = np.array([1, 2, 0, 0], np.int32)
    run_reference(main, [a])
    assert [2, 3, 4, 6] == a.tolist()


def test_allocations_inside_a_loop_belong_to_the_iteration():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1) as bx:
            for i in T.serial(4):
                seen = T.alloc_var("int32", 5)
                seen += i
                A[i] = seen

    assert any(isinstance(s, For) and any(isinstance(c, Alloc) for c in walk(s)) for s in walk(main.body))
    a = np.zeros(4, np.int32)
    run_reference(main, [a])
    assert [5, 6, 7, 8] == a.tolist()


def test_while_true_runs_in_the_kernel_until_it_is_left():
    @T.prim_func
    def main(A: T.Tensor((2,), "int32"), n: T.int32):
        with T.Kernel(1) as bx:
            steps = T.alloc_var("int32", init=0)
            while True:
                steps += 2
                if steps >= n:
                    break
            A[0] = steps

    a = np.zeros(2, np.int32)
    run_reference(main, [a, 7])
    assert 8 == a[0]


def test_while_true_without_a_way_out_is_an_error():
    with pytest.raises(StagingError) as caught:

        @T.prim_func
        def main(A: T.Tensor((2,), "int32")):
            with T.Kernel(1) as bx:
                while 1:
                    A[0] += 1

    assert "`while 1` without `break` never ends" == caught.value.message
    assert "state the condition, or leave the loop with `break`" == caught.value.hint
