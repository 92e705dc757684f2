import pytest
from warp_alone import WarpAlone, run

from tilelang.isa.instruction import Effect
from tilelang.targets.gpu.isa.fence import FENCE_BLOCK, FENCE_DEVICE, FENCE_SYSTEM


@pytest.mark.parametrize("instruction", [FENCE_BLOCK, FENCE_DEVICE, FENCE_SYSTEM])
def test_fences_order_accesses(instruction):
    warp = WarpAlone()
    run(instruction, warp)
    assert [("fence",)] == warp.asked
    assert Effect.FENCE is instruction.effect
