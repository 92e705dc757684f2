"""Both roles find the same version and phase of a use, whether they compute or count them."""

from hypothesis import given
from hypothesis import strategies as st
from roles import launch_of, product

from tilelang.dtypes import INT32
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, const
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Bind, Seq
from tilelang.targets.nvidia.passes.roles.channels import Role, await_empty, await_full, channel, release
from tilelang.targets.nvidia.passes.roles.multicast import Members
from tilelang.targets.nvidia.passes.roles.rings import find_rings, flat
from tilelang.targets.nvidia.schedule import Schedule

ZERO = const(0, INT32)
ALONE = Members((1, 1, 1), (ZERO, ZERO, ZERO))


def only_ring(trips=6):
    (ring,) = find_rings(flat(launch_of(product(128, 128, 64 * trips))), lambda copy: "").found
    return ring


def text(statements):
    return to_text(Seq(tuple(statements))).strip().splitlines()


def test_a_ring_of_as_many_versions_as_uses_is_never_given_back():
    made = channel(only_ring(), Schedule(2, 8), ALONE, by_warpgroup=True)
    assert made.empty is None
    assert 6 == made.versions
    turn = Role([made]).turn(made)
    assert [] == release(made, turn.version, Var("thread", INT32, index=True))
    assert ["mbarrier_arrive_expect_tx(A_s_full[k:k + 1], 32768)"] == text(await_empty(made, turn))
    assert ["mbarrier_wait(A_s_full[k:k + 1], 0)"] == text(await_full(made, turn))


def test_a_ring_that_is_never_used_has_a_version_nevertheless():
    made = channel(only_ring(0), Schedule(2, 4), ALONE, by_warpgroup=True)
    assert (1, None) == (made.versions, made.empty)


def test_consumers_arrive_as_warpgroups_or_one_by_one():
    schedule, thread = Schedule(2, 4), Var("thread", INT32, index=True)
    together, alone = (channel(only_ring(), schedule, ALONE, by_warpgroup=by) for by in (True, False))
    counts = [line for line in text(together.inits(schedule)) if "empty" in line]
    assert ["mbarrier_init(A_s_empty[0:1], 2)", 4] == [counts[0], len(counts)]
    assert "mbarrier_init(A_s_empty[3:4], 256)" in text(alone.inits(schedule))
    zero = const(0, INT32)
    assert "if thread % 128 == 0:" == text(release(together, zero, thread))[0]
    assert ["mbarrier_arrive(A_s_empty[0:1])"] == text(release(alone, zero, thread))


@given(st.integers(1, 5))
def test_versions_follow_each_other_and_phases_flip_after_the_last(versions):
    ring = only_ring(11)
    made = channel(ring, Schedule(2, versions), ALONE, by_warpgroup=True)
    turn = Role([made]).turn(made)
    for use in range(11):
        env = {ring.loop.var: use}
        for bind in turn.before:
            assert isinstance(bind, Bind)
            env[bind.var] = evaluate(bind.value, env)
        assert (use % versions, use // versions % 2) == (evaluate(turn.version, env), evaluate(turn.phase, env))


def test_one_version_is_the_tile_itself():
    ring = only_ring()
    made = channel(ring, Schedule(2, 1), ALONE, by_warpgroup=True)
    assert {tile: tile for tile in ring.tiles} == made.tiles


def test_consumers_tell_all_who_write_to_their_tiles():
    rank = Var("rank", INT32)
    ring = only_ring()
    schedule = Schedule(2, 3, cluster=(4, 1, 1), shared=((ring.tiles[0], (0,)),))
    made = channel(ring, schedule, Members((4, 1, 1), (rank, ZERO, ZERO)), by_warpgroup=True)
    inits = to_text(Seq(tuple(made.inits(schedule))))
    assert 3 == inits.count("1)") and 3 == inits.count(", 8)")
    assert [0, 1, 2, 3] == sorted(int(evaluate(e, {rank: 2})) for e in made.senders)
    text = to_text(Seq(tuple(release(made, ZERO, Var("thread", INT32)))))
    assert "if thread % 128 < 4:" in text and "mbarrier_arrive_remote(A_s_empty[0:1], sender)" in text
    assert made.crosses
    assert not channel(ring, Schedule(2, 3), ALONE, by_warpgroup=True).crosses
