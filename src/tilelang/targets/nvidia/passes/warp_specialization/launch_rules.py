"""Which launches can have specialized warps at all: those that leave threads, gemms and loads to the compiler.

Takes a launch as `flatten_sequences` gives it; gives the gemms that its consumers do, or raises with the reason.
"""

from __future__ import annotations

from tilelang.ir.stmt import CallStmt, Launch, TileOp
from tilelang.ir.visit import uses, walk
from tilelang.ops.gemm import Gemm
from tilelang.schedule.load_groups import LoadGroups, pipelined_loops


class NotSpecialized(Exception):
    """Why the warps of a launch are not specialized, in a few words."""


def check_launch(launch: Launch, *, specialized: bool) -> None:
    """Refuses launches that use instructions or thread indices themselves.

    Args:
        launch: The launch.
        specialized: Whether the user lets warps be specialized.

    Raises:
        NotSpecialized: It is refused.
    """
    if not specialized:
        raise NotSpecialized("switched off by pass_configs")
    for stmt in walk(launch.body):
        if isinstance(stmt, CallStmt) or isinstance(stmt, TileOp) and stmt.required_lowering:
            raise NotSpecialized(f"the kernel calls {stmt.name} itself")
        if isinstance(stmt, Gemm) and stmt.wait:
            raise NotSpecialized("the kernel waits for its gemms itself")
    if launch.thread is not None and uses(launch.body, launch.thread):
        raise NotSpecialized("the kernel names the threads")


def pipelined_gemms(launch: Launch, load_groups: LoadGroups) -> list[Gemm]:
    """The gemms of pipelined loops.

    Raises:
        NotSpecialized: There is nothing to load for them, or a tile that they read and that is filled in these loops
            cannot be loaded by a producer. Threads of consumers may fill others.
    """
    loaded = {tile for load_group in load_groups.found for tile in load_group.tiles}
    inside = [stmt for loop in pipelined_loops(launch.body) for stmt in walk(loop)]
    filled = {copy.dst.buffer: (copy, reason) for copy, reason in load_groups.refused if copy in inside}
    gemms = [stmt for stmt in inside if isinstance(stmt, Gemm)]
    for gemm in gemms:
        for operand in (gemm.a.buffer, gemm.b.buffer):
            if operand in filled and operand not in loaded:
                copy, reason = filled[operand]
                line = f"line {copy.loc.line}: " if copy.loc.line else ""
                raise NotSpecialized(f"{line}T.copy to '{operand.name}': {reason}")
    if not any(load_group.pipelined for load_group in load_groups.found):
        raise NotSpecialized("no pipelined loop loads a tile that other statements use")
    return list(dict.fromkeys(gemms))
