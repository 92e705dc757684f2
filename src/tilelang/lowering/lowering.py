"""Interface of lowerings: one way to implement one tile operator on one kind of machine, and its context.

Invariant: a lowering decides once, when it accepts an operator, and its decisions are in its plan; decisions about
layouts and threads are in the `LoweringContext`.
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
from tilelang.lowering.change_votes import ChangeVotes
from tilelang.ops.gemm import Gemm
from tilelang.options import CompileOptions
from tilelang.records import record
from tilelang.targets.target import Target


class TensorMaps:
    """The tensor maps that the lowerings of one launch request; equal requests share one.

    Attributes:
        found: The maps, in order of the first request.
    """

    def __init__(self) -> None:
        self.found: list[TensorMap] = []

    def request(
        self, tensor: Buffer, dims: tuple[Expr, ...], strides: tuple[Expr, ...], box: tuple[int, ...], swizzle: int,
        rules: MapRules, pixels: tuple[tuple[int, int, int], ...] = (), *, rounds: bool = False,
    ) -> Var:
        """The variable of the tensor map with these attributes."""
        for known in self.found:
            kind = known.box, known.swizzle, known.pixels, known.rounds
            same = known.tensor is tensor and kind == (box, swizzle, pixels, rounds)
            if same and _same(known.dims, dims) and _same(known.strides, strides):
                return known.var
        var = Var(f"{tensor.name}_map", SCALARS["uint64"])
        self.found.append(TensorMap(var, tensor, dims, strides, box, swizzle, rules, pixels, rounds))
        return var


def _same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(map(same_expr, a, b))


@record
class LoweringContext:
    """The context of a lowering.

    Attributes:
        target: The target to compile for.
        options: The user's compile options.
        threads: Number of threads that execute the operator: all of the block, or those of one group.
        thread: The index of the executing thread among them; None before threads exist.
        fragments: The layout of each fragment, once inferred.
        registers: The buffer of shape (values,) in which the executing thread holds its part of each fragment.
        shared_layouts: Layouts of shared buffers that are not row-major.
        unrolled: Values of the variables of unrolled loops.
        tensor_maps: Collects the tensor maps of the launch.
        change_votes: The votes on changes of reduced tiles.
        has_producer: Whether a producer warp loads tiles concurrently; then extra instructions cost less than waits.
        nonzero_safe: Global buffers of which loads out of bounds may not be 0.
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
    change_votes: ChangeVotes = field(default_factory=ChangeVotes)
    has_producer: bool = False
    nonzero_safe: frozenset[Buffer] = frozenset()

    def tensor_map(
        self,
        tensor: Buffer,
        dims: Sequence[Expr],
        strides: Sequence[Expr],
        box: Sequence[int],
        swizzle: int,
        rules: MapRules,
        pixels: tuple[tuple[int, int, int], ...] = (),
        *,
        rounds: bool = False,
    ) -> Var:
        """The variable of a tensor map, an operand of copy engine instructions; see `ir.launch.TensorMap`."""
        shape = tuple(dims), tuple(strides), tuple(box)
        return self.tensor_maps.request(tensor, *shape, swizzle, rules, pixels, rounds=rounds)


@record
class Refusal:
    """A refusal of an operator by a lowering.

    Attributes:
        reason: Why it is refused, as part of a message.
        is_noted: Whether `kernel.explain()` gives the reason where another lowering accepts.
        hint: What to write instead; the reason is warned of where another lowering accepts.
    """

    reason: str
    is_noted: bool = False
    hint: str = ""


ACCEPTED = Plan()
"""The plan of lowerings without decisions."""


class Lowering(Protocol):
    """One way to implement one operator class.

    The operator is an instance of the class under which the lowering is listed, and the plan is the one that `accepts`
    returned for it.
    """

    name: str  # "gemm.mma"

    def accepts(self, op: Any, context: LoweringContext) -> Plan | Refusal:
        """The plan for the operator in this context, or a refusal."""

    def constrain(self, op: Any, plan: Any, context: LoweringContext) -> Iterable[Constraint]:
        """The constraints on layouts of the operator's fragments and shared buffers."""

    def lower(self, op: Any, plan: Any, context: LoweringContext, build: Builder) -> None:
        """Emits the program of the executing thread."""


class PlainLowering:
    """Base class of lowerings without decisions: they accept any operator, in any layout."""

    def accepts(self, op: TileOp, context: LoweringContext) -> Plan | Refusal:
        """Accepts the operator; subclasses may refuse."""
        del op, context
        return ACCEPTED

    def constrain(self, op: TileOp, plan: Plan, context: LoweringContext) -> Iterable[Constraint]:
        """No constraint."""
        del op, plan, context
        return ()


@runtime_checkable
class ExpandsTiles(Protocol):
    """A lowering that expands its operator to other tile-level statements: loops, or copies around it."""

    def expand(self, op: Any, build: Builder) -> None:
        """Emits these statements."""


@runtime_checkable
class PadsRows(Protocol):
    """A lowering of `Gemm` whose instructions may read padding rows of A: in a fragment they must be zero."""

    def pads_rows(self, op: Gemm) -> bool:
        """Whether it does so for this operator."""


@runtime_checkable
class LowersDivergent(Protocol):
    """A lowering that may be executed in divergent control flow, by any subset of threads."""

    def lower_divergent(self, op: Any, plan: Any, context: LoweringContext, thread: Var, build: Builder) -> None:
        """Emits the program of a thread that executes the operator alone; `thread` is its index in the block."""


Lowerings = Mapping[type[TileOp], tuple[Lowering, ...]]
"""A target's table of lowerings: operator class to lowerings, in order of preference."""

LoopLowering = Callable[[ParallelLoop, ParallelLegality, LoweringContext, Builder], str]
"""Lowers a parallel loop with a layout by more than loads and stores of single elements: emits the program of the
executing thread and returns a note, or emits nothing and returns "" if it does not apply.
"""


def chosen_lowering(lowerings: Lowerings, op: TileOp) -> tuple[Lowering, Plan]:
    """The lowering that `choose_lowerings` has chosen for an operator, and its plan.

    Raises:
        CompilerBug: None was chosen, or the table has no such lowering.
    """
    row = next((row for row in lowerings.get(type(op), ()) if row.name == op.choice), None)
    if row is None or op.plan is None:
        raise CompilerBug(f"{op.name}: there is no lowering {op.choice!r}, or it has no plan")
    return row, op.plan


def expansion(lowerings: Lowerings, op: TileOp) -> ExpandsTiles | None:
    """The first lowering of an operator that expands it to other tile-level statements, chosen or not."""
    return next((row for row in lowerings.get(type(op), ()) if isinstance(row, ExpandsTiles)), None)
