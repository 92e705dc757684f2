"""Two warpgroups compute alternate tiles, and issue their gemms in the order of the tiles."""

from specialized import gemm_kernel, launch_of, warp_specialize

from tilelang.ir.evaluate import evaluate
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Alloc, Bind, For, If
from tilelang.ir.verify import verify
from tilelang.ir.visit import walk
from tilelang.targets.nvidia.passes.warp_specialization.ping_pong import order_barriers

WISHES = {"ping_pong": True, "persistent": True}


def groups(func, **pass_configs):
    """The programs of the two warpgroups."""
    made = warp_specialize(func, **WISHES, **pass_configs)
    verify(made)
    return [
        s.then_body
        for s in walk(launch_of(made).body)
        if isinstance(s, If) and s.group is not None and s.group.count == 128
    ]


def test_each_warpgroup_has_every_other_tile_and_names_of_its_own():
    first, second = groups(gemm_kernel(512, 512, 256))
    loops = [next(s for s in walk(program) if isinstance(s, For)) for program in (first, second)]
    assert [(0, 2), (1, 2)] == [(evaluate(loop.start, {}), loop.step) for loop in loops]
    for kind, name in ((Bind, "var"), (Alloc, "buffer"), (For, "var")):
        own = [{getattr(s, name) for s in walk(program) if isinstance(s, kind)} for program in (first, second)]
        assert not own[0] & own[1]
        assert len(own[0]) == len(own[1])


def test_one_warpgroup_begins_when_the_other_has_issued_its_gemms():
    lines = [[line.strip() for line in to_text(program).splitlines()] for program in groups(gemm_kernel(512, 512, 256))]
    for number, shown in enumerate(lines):
        wait = next(n for n, line in enumerate(shown) if line.startswith(f"mbarrier_wait(order[{number}"))
        assert shown[wait + 1].startswith("for k in")
        arrive = next(n for n, line in enumerate(shown) if line.startswith("mbarrier_arrive(order"))
        assert f"mbarrier_arrive(order[{1 - number}:{2 - number}])" == shown[arrive]
        assert "wgmma_wait_0()" == shown[arrive + 1]


def test_one_warpgroup_begins_when_the_other_has_completed_its_gemms_of_a_single_stage():
    func = gemm_kernel(512, 512, 256)
    lines = [[line.strip() for line in to_text(program).splitlines()] for program in groups(func, stages=1)]
    for number, shown in enumerate(lines):
        wait = next(n for n, line in enumerate(shown) if line.startswith(f"mbarrier_wait(order[{number}"))
        assert shown[wait + 1].startswith("for k in")
        gemm = next(n for n, line in enumerate(shown) if line.startswith("T.gemm("))
        assert "wait=1" not in shown[gemm]
        release = next(n for n, line in enumerate(shown) if line.startswith("mbarrier_arrive(A_s_empty"))
        arrive = next(n for n, line in enumerate(shown) if line.startswith("mbarrier_arrive(order"))
        assert wait < gemm < release < arrive
        assert f"mbarrier_arrive(order[{1 - number}:{2 - number}])" == shown[arrive]


def test_the_phases_are_those_that_the_other_one_completes():
    first, second = groups(gemm_kernel(512, 512, 256))
    tiles = [next(s for s in walk(program) if isinstance(s, For)) for program in (first, second)]
    waits = [order.wait()[0].args[1] for order in order_barriers(tiles[0])]
    # the first one needs one phase fewer than tiles it has done, the second one as many as it begins
    assert [1, 0, 1, 0] == [evaluate(waits[0], {tiles[0].var: turn}) for turn in (0, 2, 4, 6)]
    assert [0, 1, 0, 1] == [evaluate(waits[1], {tiles[0].var: turn}) for turn in (1, 3, 5, 7)]
