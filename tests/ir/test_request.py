"""Lowerings requested by name."""

from loops import buffer

from tilelang.ir.request import Request
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.targets.machine import NOTHING


def test_operators_without_a_request_accept_any_lowering():
    a, b, c = (whole(buffer(name, 16, 16)) for name in "ABC")
    request = Request("T.other", "other", NOTHING, "T.this")
    for op, name in ((Copy(a, b), "T.copy"), (Gemm(a, b, c), "T.gemm")):
        assert (name, "") == (op.name, op.required_lowering)
    for op in (Copy(a, b, request=request), Gemm(a, b, c, request=request)):
        assert ("T.other", "other") == (op.name, op.required_lowering)
