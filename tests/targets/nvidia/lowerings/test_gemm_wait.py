"""The wait for asynchronous gemms on the devices that have them."""

from tilelang.lowering.lowering import LoweringContext, Refusal
from tilelang.ops.gemm import MAX_PENDING
from tilelang.ops.gemm_wait import GemmWait
from tilelang.options import CompileOptions
from tilelang.targets.nvidia.lowerings.gemm_wait import WgmmaWait
from tilelang.targets.target import Target


def answer(arch, pending):
    return WgmmaWait().accepts(GemmWait(pending, ()), LoweringContext(Target("cuda", arch), CompileOptions(), 128))


def test_it_is_done_where_gemms_are_asynchronous_and_so_many_can_be_in_flight():
    assert not isinstance(answer("sm_90a", 1), Refusal)
    assert Refusal("sm_80 has no asynchronous gemms") == answer("sm_80", 0)
    assert isinstance(answer("sm_90a", MAX_PENDING + 1), Refusal)
