"""What a target's lowerings can do for producers and consumers: copies by TMA, gemms by wgmma.

Takes a target's table of lowerings; gives `TargetCapabilities`. Invariant: nothing is decided here, and an accepted
operator is still accepted in the form that `specialize_warps` gives it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from tilelang.analysis.fixed_layouts import fixed_layouts
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import const
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.pipeline import barriers
from tilelang.ir.plan import Plan
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Alloc, Launch, Seq, Stmt, TileOp
from tilelang.ir.visit import Rewriter, walk
from tilelang.layout.layout import Layout
from tilelang.lowering.lowering import Lowering, LoweringContext, Lowerings, Refusal
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import PassContext
from tilelang.records import record
from tilelang.saved_schedule import ScheduleOverrides
from tilelang.schedule.consumer_loops import converted_operand
from tilelang.schedule.load_groups import LoadGroup, LoadGroups, find_load_groups
from tilelang.targets.nvidia.lowerings.gemm_wgmma import WgmmaPlan
from tilelang.targets.nvidia.passes.warp_specialization.epilogue import EpilogueStore, ToGlobal, find_epilogue_stores
from tilelang.targets.nvidia.requests import ATOMIC_TMA_REDUCE, COPY_TMA_LOAD, COPY_TMA_STORE
from tilelang.transforms.versions import versioned

WGMMA_GEMM = "gemm.wgmma"  # the lowering of gemms for which warps are specialized


@record
class TargetCapabilities:
    """What a target's lowerings can do for producers and consumers.

    Attributes:
        lowerings: The table.
        context: The target and the compile options.
        parameters: The tensors of the function, for which the host can make tensor maps.
        workspaces: Others for which it can, of constant shape; what is stored there stays in L2 and needs no staging
            but that of the program.
        layouts: The layouts of shared tiles that are fixed already.
    """

    lowerings: Lowerings
    context: PassContext
    parameters: frozenset[Buffer]
    workspaces: frozenset[Buffer]
    layouts: Mapping[Buffer, Layout]
    _answers: dict[tuple[TileOp, str, int], str] = field(default_factory=dict)  # each question is answered once
    _plans: dict[tuple[Gemm, int], Plan] = field(default_factory=dict)

    def load_groups(self, launch: Launch) -> LoadGroups:
        """The tiles of a launch that a producer can load; the launch comes from `flatten_sequences`."""
        return find_load_groups(launch, self._can_load)

    def multicast_refusal(self, copy: Copy, parts: int) -> str:
        """Why blocks of a cluster cannot load a tile by multicast, each one of `parts`; empty if they can."""
        return self._once(copy, COPY_TMA_LOAD, parts, lambda: self._part_refusal(copy, parts))

    def _part_refusal(self, copy: Copy, parts: int) -> str:
        part = const(0, INT32)
        return self._load_refusal(dataclasses.replace(copy, multicast_mask=part, part=part, parts=parts))

    def _can_load(self, copy: Copy) -> str:
        return self._once(copy, COPY_TMA_LOAD, 0, lambda: self._load_refusal(copy))

    def _load_refusal(self, copy: Copy) -> str:
        if copy.src.buffer.storage not in self.parameters | self.workspaces:
            return f"'{copy.src.buffer.name}' has no tensor map"
        barrier = Region(barriers("barrier", 1), (const(0, INT32),), (const(1, INT32),))
        loaded = dataclasses.replace(copy, barrier=barrier)
        version = _to_version(loaded)
        layout = self.layouts.get(copy.dst.buffer)
        layouts = {} if layout is None else {version.dst.buffer: layout}
        return self._refusal(loaded, COPY_TMA_LOAD, 1) or self._refusal(version, COPY_TMA_LOAD, 1, layouts)

    def epilogue_stores(
        self, launch: Launch, threads: int, independent_loops: int = 0
    ) -> tuple[EpilogueStore, ...]:
        """The copies and atomic additions of results that TMA can do: see `find_epilogue_stores`."""

        def can_store(copy: ToGlobal) -> str:
            if copy.dst.buffer.storage not in self.parameters | self.workspaces:
                return f"'{copy.dst.buffer.name}' has no tensor map"
            name = COPY_TMA_STORE if isinstance(copy, Copy) else ATOMIC_TMA_REDUCE
            return self._once(copy, name, threads, lambda: self._refusal(copy, name, threads))

        found = find_epilogue_stores(launch, can_store, independent_loops)
        return tuple(s for s in found if s.writer is not None or s.copy.dst.buffer.storage in self.parameters)

    def wgmma_refusal(self, gemm: Gemm, threads: int) -> str:
        """Why `threads` threads cannot do a gemm by wgmma; empty if they can.

        An operand of another dtype is converted into a fragment before, as `choose_lowerings` does it.
        """
        return self._once(gemm, WGMMA_GEMM, threads, lambda: self._gemm_refusal(gemm, threads))

    def with_plans(self, launch: Launch, gemms: Iterable[Gemm], threads: int) -> Launch:
        """The launch with plans for `threads` threads on those of its gemms that wgmma can do."""
        plans = {gemm: self._plans[gemm, threads] for gemm in gemms if not self.wgmma_refusal(gemm, threads)}
        return dataclasses.replace(launch, body=_WithPlans(plans).visit(launch.body) or Seq((), loc=launch.loc))

    def _gemm_refusal(self, gemm: Gemm, threads: int) -> str:
        converted = dataclasses.replace(gemm, a=converted_operand(gemm, 0), b=converted_operand(gemm, 1))
        answer = self._answer(converted, WGMMA_GEMM, threads)
        if isinstance(answer, Refusal):
            return answer.reason
        self._plans[gemm, threads] = answer
        return ""

    def reads_by_wgmma(self, gemm: Gemm, tile: Buffer, threads: int) -> bool:
        """Whether a gemm reads a tile by wgmma from shared memory, without converting it."""
        pairs = zip((gemm.a, gemm.b), gemm.operands, strict=True)
        as_they_are = all(r.dtype == dtype for r, dtype in pairs if r.buffer.storage is tile.storage)
        return as_they_are and not self.wgmma_refusal(gemm, threads)

    def only_read_by_wgmma(self, load_group: LoadGroup, threads: int) -> bool:
        """Whether all readers of a load group are gemms by wgmma of `threads` threads."""
        return all(
            isinstance(reader, Gemm) and all(self.reads_by_wgmma(reader, tile, threads) for tile in load_group.tiles)
            for reader in load_group.readers
        )

    def _once(self, op: TileOp, name: str, count: int, ask: Callable[[], str]) -> str:
        """The answer to a question about an operator and a number of threads or parts."""
        key = (op, name, count)
        if key not in self._answers:
            self._answers[key] = ask()
        return self._answers[key]

    def _refusal(self, op: TileOp, name: str, threads: int, layouts: Mapping[Buffer, Layout] | None = None) -> str:
        answer = self._answer(op, name, threads, layouts)
        return answer.reason if isinstance(answer, Refusal) else ""

    def _answer(
        self, op: TileOp, name: str, threads: int, layouts: Mapping[Buffer, Layout] | None = None
    ) -> Plan | Refusal:
        row = self._row(type(op), name)
        if row is None:
            return Refusal(f"the target has no {name}")
        target, options = self.context.target, self.context.options
        fixed = {**self.layouts, **(layouts or {})}
        context = LoweringContext(target, options, threads, shared_layouts=fixed, has_producer=True)
        return row.accepts(op, context)

    def _row(self, kind: type[TileOp], name: str) -> Lowering | None:
        return next((row for row in self.lowerings.get(kind, ()) if row.name == name), None)


class _WithPlans(Rewriter):
    def __init__(self, plans: Mapping[Gemm, Plan]) -> None:
        self._plans = plans

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Gemm) and node in self._plans:
            return dataclasses.replace(node, choice=WGMMA_GEMM, plan=self._plans[node])
        return self.rebuild_stmt(node)


def target_capabilities(func: PrimFunc, lowerings: Lowerings, context: PassContext) -> TargetCapabilities:
    """The capabilities of a target's lowerings in one function."""
    parameters = frozenset(param.buffer for param in func.params if isinstance(param, TensorParam))
    allocated = (stmt.buffer for stmt in statements_of(func.body) if isinstance(stmt, Alloc))
    workspaces = frozenset(buffer for buffer in allocated if buffer.static_shape is not None)
    launches = [stmt for stmt in walk(func.body) if isinstance(stmt, Launch)]
    layouts = {tile: layout for launch in launches for tile, layout in fixed_layouts(launch).items()}
    return TargetCapabilities(lowerings, context, parameters, workspaces, layouts)


def launch_overrides(func: PrimFunc, context: PassContext) -> dict[Launch, ScheduleOverrides]:
    """What the user sets of the schedule of each launch."""
    launches = (stmt for stmt in walk(func.body) if isinstance(stmt, Launch))
    return {launch: context.options.launch_schedule(number) for number, launch in enumerate(launches)}


def divides_columns(gemm: Gemm) -> bool:
    """Whether warpgroups divide the columns of a gemm with a plan."""
    return isinstance(gemm.plan, WgmmaPlan) and gemm.plan.groups.columns > 1


def _to_version(copy: Copy) -> Copy:
    """The copy to one version of its tile; versions are the first dimension of the buffer."""
    zero, one = (const(number, INT32) for number in (0, 1))
    tiles = Region(versioned(copy.dst.buffer, 2), (zero, *copy.dst.start), (one, *copy.dst.extent))
    return dataclasses.replace(copy, dst=tiles)
