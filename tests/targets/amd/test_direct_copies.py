"""What is a copy by direct loads."""

import dataclasses

from loops import buffer, exprs

from tilelang.ir.buffer import Region, Scope
from tilelang.ops.copy import Copy
from tilelang.targets.amd.direct_copies import COPIES, COPY_DIRECT, is_direct

A, S = buffer("A", 8, scope=Scope.GLOBAL), buffer("S", 8, scope=Scope.SHARED)
COPY = Copy(Region(A, exprs(0), exprs(8)), Region(S, exprs(0), exprs(8)))


def test_a_copy_is_direct_by_its_lowering():
    assert not is_direct(COPY)
    assert is_direct(dataclasses.replace(COPY, choice=COPY_DIRECT))
    assert COPIES.is_asynchronous is is_direct
