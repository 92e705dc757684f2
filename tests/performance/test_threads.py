import numpy as np

from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, Var, as_expr
from tilelang.ir.stmt import For, ForKind, Group, If, Seq
from tilelang.performance.threads import Threads
from tilelang.targets.nvidia.machines import MACHINES

THREAD = Var("thread", INT32, index=True)
TENSOR = Buffer("A", (as_expr(4096),), FLOAT32, Scope.GLOBAL)


def threads(count: int = 128) -> Threads:
    return Threads(count, MACHINES["sm_90a"], {THREAD: np.arange(count)})


def test_coalesced_accesses_touch_few_sectors() -> None:
    assert 4 * 32 * 4 == threads().sector_bytes(TENSOR, (THREAD,), 4)
    assert 4 * 32 * 32 == threads().sector_bytes(TENSOR, (THREAD * 8,), 4)
    assert 4 * 32 == threads().sector_bytes(TENSOR, (THREAD * 0,), 4)


def test_unknown_addresses_are_scattered() -> None:
    assert 4 * 32 * 32 == threads().sector_bytes(TENSOR, (Var("i", INT32, index=True),), 4)


def test_bank_conflicts_take_cycles() -> None:
    some = threads()
    for stride, cycles in ((1, 1), (2, 2), (32, 32)):
        assert cycles == some.shared_cycles("load", some.addresses(TENSOR, (THREAD * stride,)), 4)
    assert 4 == some.shared_cycles("load", None, 16)


def test_a_group_of_one_thread_is_any_active_one() -> None:
    some = threads()
    some.select(np.arange(128) >= 96)
    assert 1 == some.warps
    assert [96] == list(np.flatnonzero(some.of_group(Group(0, 1, among=32))))
    assert 32 == some.of_group(Group(96, 32)).sum()


def test_the_bodies_of_a_branch_are_of_the_threads_for_which_its_condition_holds_or_fails() -> None:
    some, unknown = threads(), Var("n", INT32)
    some.select(np.arange(128) < 96)
    then, other = Seq(()), Seq(())
    for condition, first, second in ((THREAD < 32, 32, 64), (unknown < 32, 96, 96)):
        bodies = some.bodies(If(condition, then, other))
        assert [(then, first), (other, second)] == [(body, mask.sum()) for body, mask in bodies]
    (_, mask), _ = some.bodies(If(THREAD < 64, then, group=Group(0, 64)))
    assert 64 == mask.sum()


def test_threads_without_an_iteration_leave_a_loop_out() -> None:
    def left(start: Expr, stop: Expr, step: int = 1) -> int:
        some = threads()
        some.select(np.arange(128) < 96)
        assert some.iterate(For(Var("i", INT32, index=True), start, stop, step, ForKind.SERIAL, Seq(()))) == some.mask.any()
        return int(some.mask.sum())

    assert [96, 40, 56, 0] == [left(as_expr(0), as_expr(1)), left(THREAD, as_expr(40)), left(THREAD, as_expr(39), -1), left(THREAD, THREAD)]
    assert 96 == left(as_expr(0), Var("n", INT32))


def test_values_that_warps_share() -> None:
    some = threads()
    assert some.of_warps(THREAD // 32) is not None
    assert some.of_warps(THREAD // 16) is None
    assert 64 == some.mean(THREAD)
