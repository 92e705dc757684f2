"""Two warpgroups compute alternate tiles, and issue their gemms in the order of the tiles."""

from specialized import gemm_kernel, launch_of, warp_specialize

from tilelang.ir.evaluate import evaluate
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Alloc, Bind, For, If
from tilelang.ir.verify import verify
from tilelang.ir.visit import walk
from tilelang.schedule.alternate_tiles import alternate_tiles

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


def shown(program):
    return [line.strip() for line in to_text(program).splitlines()]


def test_one_warpgroup_begins_when_the_other_has_issued_its_gemms():
    for number, lines in enumerate(map(shown, groups(gemm_kernel(512, 512, 256)))):
        wait = next(n for n, line in enumerate(lines) if line.startswith(f"order tiles: wait({number}, "))
        assert lines[wait + 1].startswith("for k in")
        arrive = lines.index(f"order tiles: arrive({number})")
        assert lines[arrive + 1].startswith("wait for gemms(")


def test_one_warpgroup_begins_when_the_other_has_completed_its_gemms_of_a_single_stage():
    for number, lines in enumerate(map(shown, groups(gemm_kernel(512, 512, 256), stages=1))):
        wait = next(n for n, line in enumerate(lines) if line.startswith(f"order tiles: wait({number}, "))
        assert lines[wait + 1].startswith("for k in")
        gemm = next(n for n, line in enumerate(lines) if line.startswith("T.gemm("))
        assert "wait=" not in lines[gemm]
        release = next(n for n, line in enumerate(lines) if line.startswith("pipeline A_s: release"))
        assert wait < gemm < release < lines.index(f"order tiles: arrive({number})")


def test_the_phases_are_those_that_the_other_one_completes():
    first, second = groups(gemm_kernel(512, 512, 256))
    tiles = [next(s for s in walk(program) if isinstance(s, For)) for program in (first, second)]
    waits = [group.wait().phase for group in alternate_tiles(tiles[0], 128, counted=False)]
    # the first one needs one phase fewer than tiles it has done, the second one as many as it begins
    assert [1, 0, 1, 0] == [evaluate(waits[0], {tiles[0].var: turn}) for turn in (0, 2, 4, 6)]
    assert [0, 1, 0, 1] == [evaluate(waits[1], {tiles[0].var: turn}) for turn in (1, 3, 5, 7)]
