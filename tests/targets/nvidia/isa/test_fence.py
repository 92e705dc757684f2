import pytest
from warp_alone import WarpAlone, run

from tilelang.isa.instruction import Effect
from tilelang.targets.nvidia.isa.fence import (
    FENCE_PROXY_ASYNC,
    FENCE_PROXY_ASYNC_GLOBAL,
)
from tilelang.targets.nvidia.machines import Feature


@pytest.mark.parametrize(
    ("instruction", "what", "space"),
    [(FENCE_PROXY_ASYNC, "shared", "shared::cta"), (FENCE_PROXY_ASYNC_GLOBAL, "global", "global")],
)
def test_proxy_fences_are_for_engines(instruction, what, space):
    warp = WarpAlone()
    run(instruction, warp)
    assert [("fence_proxy", what)] == warp.asked
    assert f"fence.proxy.async.{space};" in instruction.helpers["cuda"].text
    assert (Effect.FENCE, Feature.TMA) == (instruction.effect, instruction.needs)
