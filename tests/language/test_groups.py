import pytest

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Group, If
from tilelang.ir.visit import walk


def staged(*groups: int, threads: int = 384) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=threads):
            with T.ws(*groups):
                A[0] = 1

    return main


@pytest.mark.parametrize(
    ("groups", "threads", "expected"),
    [((0,), 384, (0, 128)), ((2,), 384, (256, 128)), ((1, 2), 384, (128, 256)), ((1,), 160, (128, 32))],
)
def test_groups_are_128_threads_each(groups, threads, expected) -> None:
    (branch,) = [s for s in walk(staged(*groups, threads=threads).body) if isinstance(s, If)]
    assert Group(*expected) == branch.group


@pytest.mark.parametrize(
    ("groups", "threads", "message"),
    [
        ((), 384, "T.ws: expected numbers of groups"),
        ((3,), 384, "384 threads make groups 0 to 2 of 128"),
        ((0, 2), 384, "are not neighbors"),
        ((0, 0), 384, "are not neighbors"),
    ],
)
def test_groups_that_do_not_exist_are_refused(groups, threads, message) -> None:
    with pytest.raises(ProgramError) as caught:
        staged(*groups, threads=threads)
    assert message in str(caught.value)
