from collections.abc import Sequence

import numpy as np
import pytest

from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, Var, as_expr
from tilelang.ir.stmt import CallStmt, For, ForKind, Group, If, Seq
from tilelang.isa.instruction import Instruction
from tilelang.performance.threads import Threads
from tilelang.targets.gpu.isa.warp import ACTIVE_MASK
from tilelang.targets.nvidia.isa.opaque_zero import OPAQUE_ZERO
from tilelang.targets.nvidia.isa.renewed import RENEWED
from tilelang.targets.nvidia.isa.thread_index import THREAD_INDEX
from tilelang.targets.nvidia.isa.warpgroup_index import WARPGROUP_INDEX
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


@pytest.mark.parametrize(
    ("instruction", "args", "expected"),
    [
        (THREAD_INDEX, (), range(80)),
        (WARPGROUP_INDEX, (), [0] * 80),
        (OPAQUE_ZERO, (), [0] * 80),
        (RENEWED, (THREAD + 1,), range(1, 81)),
        (RENEWED, (Var("n", INT32),), None),
        (ACTIVE_MASK, (), None),
    ],
)
def test_results_of_index_arithmetic(instruction: Instruction, args: tuple[Expr, ...], expected: Sequence[int] | None) -> None:
    found = threads(80).result_of(CallStmt(instruction, args), instruction)  # of which the last warp has half its lanes
    assert (expected and list(expected)) == (None if found is None else list(np.asarray(found)))


def test_warps_have_the_index_of_their_warpgroup() -> None:
    found = threads(384).result_of(CallStmt(WARPGROUP_INDEX, ()), WARPGROUP_INDEX)
    assert [0, 1, 2] == [int(np.asarray(found)[first]) for first in (0, 128, 256)]
