"""Tensors that instructions write through tensor maps.

Takes a launch at thread level, gives global buffers. Calls do not list regions of a tensor that a map describes.
"""

from __future__ import annotations

from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var
from tilelang.ir.stmt import CallStmt, Launch
from tilelang.ir.visit import walk
from tilelang.isa.instruction import Instruction


def stored_by_tensor_maps(launch: Launch) -> frozenset[Buffer]:
    """The tensors that a launch writes through tensor maps."""
    if not launch.plan.tensor_maps:
        return frozenset()
    tensors = {each.var: each.tensor for each in launch.plan.tensor_maps}
    calls = (s for s in walk(launch.body) if isinstance(s, CallStmt))
    written = (
        call.args[call.routine.written_map]
        for call in calls
        if isinstance(call.routine, Instruction) and call.routine.written_map is not None
    )
    return frozenset(tensors[var] for var in written if isinstance(var, Var))
