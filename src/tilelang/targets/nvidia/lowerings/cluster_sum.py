"""Reduction over the blocks of a cluster: blocks store partial sums to the shared memory of the owners of results.

Takes `ClusterSum`, gives the program of one thread. Each thread sends its registers to the thread of the same index in
the owner, which holds the same elements of the tile. Invariant: the buffer of partial sums is ordered by sending block,
then by chunk of 16 bytes, then by thread, so that stores and loads of a warp have no bank conflicts; partial sums are
added in rank order, so that results are deterministic.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

import numpy as np

from tilelang.dtypes import INT32
from tilelang.errors import NoLowering
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Expr, Load, const, select
from tilelang.ir.plan import Plan
from tilelang.ir.stmt import CallStmt, ForKind, If
from tilelang.layout.constraints import AccessLayout, Constraint, Reason
from tilelang.layout.digits import DigitMap, Mode
from tilelang.layout.thread_values import Fragment, fragment
from tilelang.lowering.lowering import ACCEPTED, LoweringContext, Refusal
from tilelang.lowering.regions import ZERO
from tilelang.lowering.registers import Emitter, emitter, vector
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.targets.nvidia.isa.cluster import cluster_store_async
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_ARRIVE_EXPECT_TX, MBARRIER_WAIT
from tilelang.targets.nvidia.machines import Feature

_WIDEST, _NARROWEST = 16, 4  # bytes of a store. Source: PTX ISA, "st.async"


class PushSums:
    """The lowering."""

    name = "cluster_sum.push"

    def accepts(self, op: ClusterSum, context: LoweringContext) -> Plan | Refusal:
        """An empty plan, or a refusal."""
        return ACCEPTED if context.target.has(Feature.CLUSTER) else Refusal(f"{context.target.arch} has no clusters")

    def constrain(self, op: ClusterSum, plan: Plan, context: LoweringContext) -> Iterable[Constraint]:
        """A thread holds the same part of a block's own columns as of the columns of any other block."""
        if op.own.buffer is not op.sums.buffer:
            rows, columns = op.own.static_extent or (0, 0)
            column = (Mode(columns, (0, 1)), Mode(op.owners, (0, 0)))
            access = DigitMap(((Mode(rows, (1, 0)),), column), (rows, columns))
            yield AccessLayout(op.own.buffer, op.sums.buffer, access, Reason(op.name, op.loc))

    def lower(self, op: ClusterSum, plan: Plan, context: LoweringContext, build: Builder) -> None:
        """The program of the executing thread."""
        emit, thread = emitter(build, context, self.name)
        _Emission(op, context, emit, thread).run()


class _Emission:
    """The program of one reduction."""

    def __init__(self, op: ClusterSum, context: LoweringContext, emit: Emitter, thread: Expr) -> None:
        self._op, self._threads, self._emit, self._thread = op, context.threads, emit, thread
        self._dtype = op.sums.dtype
        self._sums, self._own = context.registers[op.sums.buffer], context.registers[op.own.buffer]
        self._sums_layout, self._own_layout = context.fragments[op.sums.buffer], context.fragments[op.own.buffer]
        self._sent = _columns(self._sums_layout, op.own.static_extent or (0, 0))
        self._values = self._sent.values
        if not self._has_equal_ownership():
            raise NoLowering(
                f"{op.name}: threads do not hold the same parts of '{op.sums.buffer.name}' in all blocks",
                hint="leave tl.split out",
            )
        self._lanes = self._vector_width()  # values of one access

    def _has_equal_ownership(self) -> bool:
        """Whether threads hold the same elements of the sent and of the owned tile, without replication."""
        alone = self._values * self._threads == math.prod(self._sent.shape)
        return alone and self._sent.same_owners(self._own_layout) and self._own_layout.values == self._values

    def _vector_width(self) -> int:
        """The vector width of the partial sums that are sent to an owner."""
        rows, columns = np.moveaxis(self._sent.table[0], -1, 0)
        firsts = [owner * self._sent.shape[1] for owner in range(self._op.owners)]
        places = np.array([self._sums_layout.owner(rows, columns + first)[1] for first in firsts])
        width = math.gcd(self._values, _WIDEST // self._dtype.storage_bytes)
        while width > 1 and not _are_contiguous(places, width):
            width //= 2
        if width * self._dtype.storage_bytes < _NARROWEST:
            raise NoLowering(
                f"{self._op.name}: no neighbors of {self._dtype!s} can be sent together", hint="leave tl.split out"
            )
        return width

    def run(self) -> None:
        """Emits the stores of the senders, and the sums of the owners."""
        op, build = self._op, self._emit.build
        for owner in range(op.owners):
            with build.block() as pushed:
                self._push(owner)
            build.emit(If(op.rank != owner, as_body(pushed, build.loc)))
        with build.block() as received:
            self._await()
            for owner in range(op.owners):
                with build.block() as added:
                    self._add(owner)
                mine = as_body(added, build.loc)
                build.emit(mine if op.owners == 1 else If(op.rank == owner, mine))
        owned = as_body(received, build.loc)
        build.emit(owned if op.owners == op.blocks else If(op.rank < op.owners, owned))

    def _push(self, owner: int) -> None:
        op, dtype = self._op, vector(self._dtype, self._lanes)
        store, to = cluster_store_async(dtype), const(owner, INT32)
        before = op.rank - 1 if owner == 0 else select(op.rank < owner, op.rank, op.rank - 1)

        def one(v: Expr) -> None:
            target = self._emit.part(op.parts.buffer, self._place(before, v), self._lanes)
            value = Load(self._sums, (self._of_sums(owner, v * self._lanes),), dtype)
            self._emit.build.emit(CallStmt(store, (target, to, value, op.barrier), writes=(target,)))

        self._emit.loop("v", self._values // self._lanes, one)

    def _await(self) -> None:
        op, build = self._op, self._emit.build
        size = math.prod(op.parts.static_extent or (0,)) * self._dtype.storage_bytes
        announce = CallStmt(MBARRIER_ARRIVE_EXPECT_TX, (op.barrier, const(size, INT32)))
        build.emit(If(self._thread == 0, announce))
        build.emit(CallStmt(MBARRIER_WAIT, (op.barrier, ZERO)))

    def _add(self, owner: int) -> None:
        emit, parts = self._emit, self._op.parts.buffer

        def one(v: Expr, lane: Expr) -> None:
            value = v * self._lanes + lane
            terms: list[Expr] = [
                emit.load(parts, self._place(const(rank, INT32), v) + lane) for rank in range(self._op.blocks - 1)
            ]
            terms.insert(owner, emit.load(self._sums, self._of_sums(owner, value)))
            emit.store(self._own, self._of_own(value), functools.reduce(lambda total, term: total + term, terms))

        def group(v: Expr) -> None:
            emit.loop("lane", self._lanes, lambda lane: one(v, lane), ForKind.VECTORIZED)

        emit.loop("v", self._values // self._lanes, group)

    def _place(self, part: Expr, v: Expr) -> Expr:
        """The index of a chunk that the executing thread receives from one of the other blocks."""
        return ((part * (self._values // self._lanes) + v) * self._threads + self._thread) * self._lanes

    def _of_sums(self, owner: int, value: Expr) -> Expr:
        """The register of a value that is sent to an owner."""
        row, column = self._sent.coordinates(0, value)
        return self._emit.short(self._sums_layout.owner(row, column + owner * self._sent.shape[1])[1])

    def _of_own(self, value: Expr) -> Expr:
        """The register of a received value, among those that a thread owns."""
        return self._emit.short(self._own_layout.owner(*self._sent.coordinates(0, value))[1])


def _columns(tile: Fragment, shape: tuple[int, ...]) -> Fragment:
    """The first columns of a tile, values in the same order; not covered where threads differ by further columns."""

    def inside(modes: tuple[Mode, ...]) -> list[Mode]:
        modes_inside = []
        for mode in modes:
            step = mode.stride[1]
            modes_inside.append(mode if not step else Mode(min(mode.size, max(1, shape[1] // step)), mode.stride))
        return modes_inside

    return fragment(shape, tile.thread, inside(tile.value))


def _are_contiguous(places: np.ndarray, run: int) -> bool:
    """Whether aligned groups of `run` values are contiguous and aligned in the registers. Shapes: (owners, values)."""
    groups = places.reshape(-1, run)
    return bool((groups == groups[:, :1] + np.arange(run)).all() and (groups[:, 0] % run == 0).all())
