import pytest

from tilelang.dtypes import INT32
from tilelang.errors import NOWHERE, NoLowering
from tilelang.ir.expr import Var, const
from tilelang.ir.stmt import CallStmt, Group, Launch, Seq
from tilelang.targets.nvidia.isa.named_barrier import BAR_SYNC
from tilelang.targets.nvidia.named_barriers import NamedBarriers

THREAD = Var("thread", INT32, index=True)


def launch(*used):
    """A launch whose program uses barriers of these numbers itself."""
    calls = tuple(CallStmt(BAR_SYNC, (const(number, INT32), const(64, INT32))) for number in used)
    return Launch((), (), (1024, 1, 1), Seq(calls))


def numbers(barriers, *groups):
    return [barriers.barrier(group, NOWHERE).args[0].value for group in groups]


def test_groups_with_the_same_threads_share_a_barrier():
    first, second = Group(0, 128), Group(128, 128)
    assert [15, 14, 15] == numbers(NamedBarriers(launch()), first, second, Group(0, 128))
    assert [14, 12] == numbers(NamedBarriers(launch(15, 13)), first, second)


def test_numbers_that_threads_compute_are_taken():
    call = CallStmt(BAR_SYNC, (9 + THREAD // 128, const(128, INT32)))
    program = Launch((), (), (512, 1, 1), Seq((call,)), thread=THREAD)
    assert [15, 14, 13, 8] == numbers(NamedBarriers(program), *(Group(128 * at, 128) for at in range(4)))


def test_a_group_for_which_no_number_is_left_is_refused():
    barriers = NamedBarriers(launch())
    assert 8 == numbers(barriers, *(Group(64 * at, 64) for at in range(8)))[-1]
    with pytest.raises(NoLowering, match="T.ws: the block has only 16 named barriers, and none is free"):
        barriers.barrier(Group(512, 64), NOWHERE)


def test_warpgroups_of_a_group_have_barriers_as_long_as_there_are_numbers():
    (size, make), = NamedBarriers(launch()).subgroups(Group(128, 256), THREAD)
    assert 128 == size
    assert 128 == make(NOWHERE).args[1].value
    assert [] == NamedBarriers(launch()).subgroups(Group(0, 128), THREAD)
    assert [] == NamedBarriers(launch(*range(9, 16))).subgroups(Group(0, 256), THREAD)
