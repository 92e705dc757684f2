"""What functions of level 3 ask for is a row of the table of lowerings."""

from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.targets.nvidia.backend import LOWERINGS
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.nvidia.requests import request_tma, request_wgmma


def test_requests_name_lowerings():
    for load in (True, False):
        request = request_tma("T.tma_copy", load=load)
        assert request.lowering in {row.name for row in LOWERINGS[Copy]}
        assert Feature.TMA == request.needs
        assert ("T.tma_copy", "T.copy", "") == (request.name, request.instead, request.requires)
    assert Feature.TMA | Feature.CLUSTER == request_tma("T.tma_copy", load=True, multicast=True).needs
    request = request_wgmma("T.wgmma_gemm", "T.gemm")
    assert request.lowering in {row.name for row in LOWERINGS[Gemm]}
    assert Feature.WGMMA == request.needs
    assert "T.wgmma_gemm requires Hopper WGMMA lowering" == request.requires
