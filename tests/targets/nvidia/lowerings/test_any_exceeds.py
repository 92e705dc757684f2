"""The vote of a warpgroup on a limit: which warpgroups can take one."""

import pytest

from tilelang.dtypes import SCALARS
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import const
from tilelang.lowering.lowering import LoweringContext, Refusal
from tilelang.lowering.regions import whole
from tilelang.ops.any_exceeds import AnyExceeds
from tilelang.options import CompileOptions
from tilelang.targets.nvidia.lowerings.any_exceeds import VoteOfWarpgroup
from tilelang.targets.target import Target

TILE = whole(Buffer("terms", (const(128, SCALARS["int32"]),), SCALARS["float32"], Scope.FRAGMENT))
ANSWER = Region(Buffer("exceeds", (), SCALARS["bool"], Scope.VAR), (), ())


@pytest.mark.parametrize(("threads", "can"), [(128, True), (384, True), (512, False), (96, False)])
def test_up_to_three_whole_warpgroups_have_a_barrier_each(threads, can):
    context = LoweringContext(Target("cuda", "sm_90a"), CompileOptions(), threads)
    answer = VoteOfWarpgroup().accepts(AnyExceeds(TILE, 8.0, ANSWER), context)
    assert can == (not isinstance(answer, Refusal))
    assert [] == list(VoteOfWarpgroup().constrain(AnyExceeds(TILE, 8.0, ANSWER), answer, context))
