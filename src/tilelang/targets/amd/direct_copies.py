"""Direct loads to LDS as the asynchronous copies of software pipelines: how to recognize, commit and wait for them."""

from __future__ import annotations

from tilelang.ir.stmt import Stmt
from tilelang.ops.copy import Copy
from tilelang.schedule.async_copies import AsyncCopies
from tilelang.targets.amd.isa.direct_to_lds import COMMIT_DIRECT_LOADS, WAIT_FOR_DIRECT_LOAD_GROUPS

COPY_DIRECT = "copy.direct_to_lds"


def is_direct(stmt: Stmt) -> bool:
    """Whether a statement is a copy by direct loads."""
    return isinstance(stmt, Copy) and stmt.choice == COPY_DIRECT


COPIES = AsyncCopies(is_direct, COMMIT_DIRECT_LOADS, WAIT_FOR_DIRECT_LOAD_GROUPS)
