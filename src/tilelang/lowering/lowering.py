"""What a lowering is: one way to do one tile operator on one kind of machine, and what it may know when it does.

Takes nothing; gives the words that lowerings and the passes that use them share. Invariant: a lowering decides once,
when it accepts an operator; what was decided about layouts and threads is in its `LoweringContext`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, runtime_checkable

from tilelang.analysis.parallel_legality import ParallelLegality
from tilelang.dtypes import SCALARS
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer
from tilelang.ir.builder import Builder
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Expr, Var
from tilelang.ir.launch import MapRules, TensorMap
from tilelang.ir.plan import Plan
from tilelang.ir.stmt import ParallelLoop, TileOp
from tilelang.layout.constraints import Constraint
from tilelang.layout.layout import Layout
from tilelang.layout.thread_values import Fragment
from tilelang.ops.gemm import Gemm
from tilelang.options import CompileOptions
from tilelang.records import record
from tilelang.targets.target import Target


class TensorMaps:
    """The maps that the lowerings of one launch ask for; equal requests share one.

    Attributes:
        found: In the order of the first requests.
    """

    def __init__(self) -> None:
        self.found: list[TensorMap] = []

    def request(
        self, tensor: Buffer, dims: tuple[Expr, ...], strides: tuple[Expr, ...], box: tuple[int, ...], swizzle: int,
        rules: MapRules, pixels: tuple[tuple[int, int, int], ...] = (),
    ) -> Var:
        """The name of the map with these attributes."""
        for known in self.found:
            same = known.tensor is tensor and (known.box, known.swizzle, known.pixels) == (box, swizzle, pixels)
            if same and _same(known.dims, dims) and _same(known.strides, strides):
                return known.var
        var = Var(f"{tensor.name}_map", SCALARS["uint64"])
        self.found.append(TensorMap(var, tensor, dims, strides, box, swizzle, rules, pixels))
        return var


def _same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(map(same_expr, a, b))


@record
class LoweringContext:
    """Where an operator is done.

    Attributes:
        target: What is compiled for.
        options: The user's compile options.
        threads: How many threads do it together; all of the block, or those of one group.
        thread: The index of the executing thread among them; None before threads exist.
        fragments: The layout of each fragment, once inferred.
        registers: The buffer of shape (values,) in which the executing thread holds its part of each fragment.
        shared_layouts: Where elements of shared buffers lie, for those that are not row-major.
        unrolled: The values that the variables of unrolled loops have.
        tensor_maps: Collects the maps that the launch needs.
        has_producer: Whether a producer loads tiles concurrently, so that instructions cost less than waiting.
    """

    target: Target
    options: CompileOptions
    threads: int
    thread: Expr | None = None
    fragments: Mapping[Buffer, Fragment] = field(default_factory=dict)
    registers: Mapping[Buffer, Buffer] = field(default_factory=dict)
    shared_layouts: Mapping[Buffer, Layout] = field(default_factory=dict)
    unrolled: Mapping[Var, range] = field(default_factory=dict)
    tensor_maps: TensorMaps = field(default_factory=TensorMaps)
    has_producer: bool = False

    def tensor_map(
        self,
        tensor: Buffer,
        dims: Sequence[Expr],
        strides: Sequence[Expr],
        box: Sequence[int],
        swizzle: int,
        rules: MapRules,
        pixels: tuple[tuple[int, int, int], ...] = (),
    ) -> Var:
        """What instructions of the copy engine take to see a tensor that way; see `ir.launch.TensorMap`."""
        return self.tensor_maps.request(tensor, tuple(dims), tuple(strides), tuple(box), swizzle, rules, pixels)


@record
class Refusal:
    """Why a lowering cannot do an operator.

    Attributes:
        reason: In a few words.
    """

    reason: str


ACCEPTED = Plan()
"""The plan of lowerings that have nothing to decide."""


class Lowering(Protocol):
    """One way to do one operator.

    The operator given is always an instance of the class it is listed under, and the plan is what the lowering has
    answered for it: nothing is decided twice.
    """

    name: str  # "gemm.mma"

    def accepts(self, op: Any, context: LoweringContext) -> Plan | Refusal:
        """How it does this operator here, or why it cannot."""

    def constrain(self, op: Any, plan: Any, context: LoweringContext) -> Iterable[Constraint]:
        """What it needs of the layouts of the operator's fragments and shared buffers."""

    def lower(self, op: Any, plan: Any, context: LoweringContext, build: Builder) -> None:
        """Emits what the executing thread does."""


class PlainLowering:
    """What lowerings have in common that have nothing to decide: they accept any operator, in any layout."""

    def accepts(self, op: TileOp, context: LoweringContext) -> Plan | Refusal:
        """Accepted, unless a subclass refuses."""
        del op, context
        return ACCEPTED

    def constrain(self, op: TileOp, plan: Plan, context: LoweringContext) -> Iterable[Constraint]:
        """No constraint."""
        del op, plan, context
        return ()


@runtime_checkable
class ExpandsTiles(Protocol):
    """A lowering that first writes its operator as other tile-level statements: as loops, or itself between copies."""

    def expand(self, op: Any, build: Builder) -> None:
        """Emits these statements."""


@runtime_checkable
class PadsRows(Protocol):
    """A lowering of `Gemm` whose instructions may multiply more rows than A has: in a fragment those must be zero."""

    def pads_rows(self, op: Gemm) -> bool:
        """Whether it does so here."""


@runtime_checkable
class LowersDivergent(Protocol):
    """A lowering that needs no other threads than those that come, however many they are."""

    def lower_divergent(self, op: Any, plan: Any, context: LoweringContext, thread: Var, build: Builder) -> None:
        """Emits what a thread does that comes to the operator without the others, whose index in the block is given."""


Lowerings = Mapping[type[TileOp], tuple[Lowering, ...]]
"""A target's table of lowerings: of each operator, in order of preference."""

LoopLowering = Callable[[ParallelLoop, ParallelLegality, LoweringContext, Builder], str]
"""A way to do a parallel loop that has a layout by more than loads and stores of single elements: emits what the
executing thread does and gives a note of it, or emits nothing and gives "" where the loop cannot be done so."""


def chosen_row(lowerings: Lowerings, op: TileOp) -> tuple[Lowering, Plan]:
    """The lowering of an operator, and its plan, as `choose_lowerings` has written them.

    Raises:
        CompilerBug: None was chosen, or the table has no such lowering.
    """
    row = next((row for row in lowerings.get(type(op), ()) if row.name == op.choice), None)
    if row is None or op.plan is None:
        raise CompilerBug(f"{op.name}: there is no lowering {op.choice!r}, or it has no plan")
    return row, op.plan


def expansion(lowerings: Lowerings, op: TileOp) -> ExpandsTiles | None:
    """The first lowering of an operator that writes it as other tile-level statements, chosen or not."""
    return next((row for row in lowerings.get(type(op), ()) if isinstance(row, ExpandsTiles)), None)
