"""What is asked for by name is what an operator is called, and what does it."""

from loops import buffer

from tilelang.ir.request import Request
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.targets.machine import NOTHING


def test_operators_of_which_nothing_is_asked_by_name_may_be_done_by_any_lowering():
    a, b, c = (whole(buffer(name, 16, 16)) for name in "ABC")
    request = Request("T.other", "other", NOTHING, "T.this")
    for op, name in ((Copy(a, b), "T.copy"), (Gemm(a, b, c), "T.gemm")):
        assert (name, "") == (op.name, op.demanded)
    for op in (Copy(a, b, request=request), Gemm(a, b, c, request=request)):
        assert ("T.other", "other") == (op.name, op.demanded)
