"""Splits loops of consumers so that iterations that mask no element, as in causal attention, run without masks.

Takes a tile-level function as `specialize_warps` leaves it. The copy without masks has the statements of the loop in
the same order; a mask that was written before a gemm becomes a clear there, which the gemm does itself. Invariant:
no gemm is in flight between the loops, and pipelines are waited for and released as before, since their states depend
only on the loop's variable or are counted.

A speculative step of a softmax is for iterations without masks up to the first in which it is wrong: others take the
whole step, so that no mask is computed twice. Where several with masks follow, they and those behind a wrong step are
one loop, which asks whether there is a mask: NVRTC takes a fifth less time for causal attention. Other loops stay two,
though one would save as much: on an H200 the branch made most kernels slower, backward by 8 %. So did a branch instead
of a loop that runs at most once: attention with ALiBi by 10 %, most others by up to 2 %.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from tilelang.analysis.divergence import divergence
from tilelang.arith.domain import Domain, of_function
from tilelang.arith.prove import proves
from tilelang.dtypes import BOOL, INT32
from tilelang.errors import Note
from tilelang.ir.assumption import assume
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Binary, Const, Expr, Load, Var, binary, cast, unary
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import UnaryOp
from tilelang.ir.sequences import statements_of, with_statements
from tilelang.ir.stmt import Alloc, Bind, Break, CallStmt, For, If, Launch, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, sub_statements, walk, written_buffers
from tilelang.ops.any_exceeds import AnyExceeds
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_wait import GemmWait
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.schedule.iteration import trip_count
from tilelang.targets.machine import Machine, Rates
from tilelang.targets.nvidia.isa.opaque_zero import OPAQUE_ZERO
from tilelang.targets.nvidia.passes.costs import gemm_work, rates_of, thread_work
from tilelang.targets.nvidia.schedule import schedule_of
from tilelang.transforms.fresh_names import with_fresh_names
from tilelang.transforms.fuse_clears import fuse_clears_in
from tilelang.transforms.split_masks import has_masks, split_masks

# On an H200 attention was 1.2 % slower where a mask takes twice as many cycles of threads as the gemm that adds to it,
# with 64 dimensions, and 0.2 % faster where it takes as many, with 128. No others were measured.
_MOST_MASK_WORK = 1.25


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    domain = of_function(func)
    return with_launches(func, lambda launch: _split(launch, domain, context.target.machine))


def _split(launch: Launch, domain: Domain, machine: Machine) -> Launch:
    if schedule_of(launch) is None:
        return launch
    domain = domain.with_extents(launch.block_vars, launch.grid)
    rewriter = _Loops(lambda expr: divergence(launch).is_uniform(expr), domain, rates_of(machine))
    body = rewriter.visit(launch.body) or Seq((), loc=launch.body.loc)
    if body is launch.body:
        return launch
    notes = [Note("iterations that mask no element run without masks", loop.loc) for loop in rewriter.split]
    plan = dataclasses.replace(launch.plan, notes=(*launch.plan.notes, *notes))
    return dataclasses.replace(launch, body=body, plan=plan)


class _Loops(Rewriter):
    """Splits the loops that compute gemms.

    Attributes:
        split: The loops that were split.
    """

    def __init__(self, is_uniform: Callable[[Expr], bool], domain: Domain, rates: Rates) -> None:
        self._is_uniform, self._domain, self._rates = is_uniform, domain, rates
        self.split: list[For] = []

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Seq):
            outside = self._domain
            sequence = self._sequence(node)
            self._domain = outside
            return sequence
        if not isinstance(node, For):
            return self.rebuild_stmt(node)
        if (bodies := _speculative_and_whole(node)) is not None:
            return Seq(tuple(self._speculative_copies(*bodies)), loc=node.loc)
        if any(isinstance(s, Gemm) for s in sub_statements(node.body)):
            parts = split_masks(node, self._domain, self._is_uniform)
            if parts is None:
                return node
            self.split.append(node)
            if _is_rotated(node):
                return Seq(tuple(self._rotated_copies(parts.body, node)), loc=node.loc)
            return Seq(tuple(self._own_copy(s, node) for s in parts.body), loc=node.loc)
        outside = self._domain
        self._domain = outside.with_loop(node.var, node.start, node.stop, node.step)
        rebuilt = self.rebuild_stmt(node)
        self._domain = outside
        return rebuilt

    def _speculative_copies(self, speculative: For, whole: For) -> Iterator[Stmt]:
        """The parts of a loop with a speculative step, which only iterations without masks take.

        Args:
            speculative: The loop with speculative steps.
            whole: The same with whole ones.
        """
        parts, others = (split_masks(each, self._domain, self._is_uniform) for each in (speculative, whole))
        if parts is None or others is None:
            masks = has_masks(speculative, self._domain, self._is_uniform)
            yield from (whole,) if masks else self._until_wrong(speculative, whole)
            return
        self.split.append(whole)
        yield from (each for each in parts.body if not isinstance(each, For))
        loops = [each for each in parts.body if isinstance(each, For)]
        bodies = [each.body for each in others.body if isinstance(each, For)]
        copies = [dataclasses.replace(each, body=body) for each, body in zip(loops, bodies, strict=True)]
        place = next(n for n, each in enumerate(loops) if each.body is not speculative.body)
        yield from (self._own_copy(each, whole) for each in copies[:place])
        masked = copies[place + 1 :]
        joined = [
            each
            for each in masked
            if not proves(trip_count(each) <= 1, self._domain) and not _delays_gemm(copies[place], each, self._rates)
        ]
        yield from self._until_wrong(loops[place], copies[place], *joined)
        yield from (self._own_copy(each, whole) for each in masked if each not in joined)

    def _until_wrong(self, loop: For, whole: For, masked: For | None = None) -> Iterator[Stmt]:
        """A loop with speculative steps up to the first that is wrong, and one with whole steps for the rest.

        What is wrong once is often wrong again: with normally distributed scores of deviation 10, which grow in many
        tiles, attention was 1.2 to 1.6 times slower on an H200 where each iteration speculated.

        Args:
            loop: The loop with speculative steps.
            whole: The same with whole ones.
            masked: Iterations with masks that follow, if they are part of the rest.
        """
        vote = next(s for s in sub_statements(loop.body) if isinstance(s, AnyExceeds))
        is_wrong = Load(vote.result.buffer, (), BOOL)
        resume, first = Buffer("resume", (), INT32, Scope.VAR), Var("resumed", INT32, index=True)
        leave = Seq((Store(resume, (), loop.var + loop.step), Break()), loc=loop.loc)
        body = Seq((*statements_of(loop.body), If(is_wrong, leave, loc=loop.loc)), loc=loop.body.loc)
        yield Alloc(resume, cast(loop.stop, INT32), loc=loop.loc)
        yield self._own_copy(dataclasses.replace(loop, body=body), loop)
        rest: list[Stmt] = [Bind(first, Load(resume, (), INT32), loc=loop.loc)]
        if loop.step > 0 and proves(loop.start >= 0, self._domain):
            rest.append(assume(first >= 0, loop.loc))
        if masked is None:
            rest.append(self._own_copy(dataclasses.replace(whole, start=first), loop))
            yield If(is_wrong, Seq(tuple(rest), loc=loop.loc), loc=loop.loc)
        else:
            yield from (*rest, with_fresh_names(dataclasses.replace(_masked_behind(whole, masked), start=first)))

    def _sequence(self, node: Seq) -> Stmt:
        body = []
        for child in node.body:
            rewritten = self.visit(child)
            body += [] if rewritten is None else [rewritten]
            if isinstance(child, Bind):
                self._domain = self._domain.with_value(child.var, child.value)
        return with_statements(node, body)

    def _rotated_copies(self, parts: Sequence[Stmt], loop: For) -> Iterator[Stmt]:
        """The parts of a rotated loop, with waits between them, as there is none in flight where the loop begins.

        In iterations without masks it is known that there is a next one. Compilers must not know it: without the
        branch, ptxas moved exponentials behind the issue of the gemm, and attention was 13 to 50 % slower on an H200.
        """
        zero = Var("zero", INT32)
        yield CallStmt(OPAQUE_ZERO, (), result=zero, loc=loop.loc)
        waits = [s for s in sub_statements(loop.body) if isinstance(s, GemmWait) and not s.pending]
        for part in parts:
            if isinstance(part, For) and part.body is not loop.body:
                body = tuple(_with_unknown_condition(s, zero) for s in statements_of(part.body))
                part = dataclasses.replace(part, body=Seq(body, loc=part.body.loc))
            yield self._own_copy(part, loop)
            if isinstance(part, For) and part is not parts[-1]:
                yield from map(dataclasses.replace, waits)

    def _own_copy(self, stmt: Stmt, loop: For) -> Stmt:
        """A loop with names of its own, in which gemms do clears."""
        if not isinstance(stmt, For):
            return stmt
        if stmt.body is not loop.body:
            stmt = dataclasses.replace(stmt, body=fuse_clears_in(stmt.body, Domain()))
        return with_fresh_names(stmt)


def _delays_gemm(unmasked: For, masked: For, rates: Rates) -> bool:
    """Whether a mask that a gemm adds to, which would be a branch before it, takes threads long compared with it."""
    kept = sub_statements(unmasked.body)
    cycles = {s.c.buffer: gemm_work(s, rates).cycles for s in kept if isinstance(s, Gemm) and not s.always_clears}
    return any(
        thread_work(mask, rates).cycles > _MOST_MASK_WORK * cycles[buffer]
        for mask in sub_statements(masked.body)
        if mask not in kept
        for stmt in walk(mask)
        for buffer in written_buffers(stmt)
        if buffer in cycles
    )


def _masked_behind(unmasked: For, masked: For) -> For:
    """A loop over the iterations of two that follow each other, with masks in those of the second.

    Where a mask is what a gemm adds to, the gemm overwrites what there is in iterations without it.
    """
    is_masked = masked.var >= masked.start if masked.step > 0 else masked.var <= masked.start
    statements, others = statements_of(masked.body), [*statements_of(fuse_clears_in(unmasked.body, Domain()))]
    body: list[Stmt] = []
    for stmt in statements:
        other = others[0] if others and others[0] not in statements else None
        if others and others[0] is stmt:
            body.append(others.pop(0))
        elif isinstance(stmt, Gemm):
            body.append(dataclasses.replace(stmt, clear_accum=unary(UnaryOp.NOT, is_masked)))
            others.pop(0)
        elif isinstance(other, Gemm):
            body.append(If(is_masked, stmt, loc=stmt.loc))
        else:
            body.append(If(is_masked, stmt, other, loc=stmt.loc))
            others = others[other is not None :]
    return dataclasses.replace(masked, start=unmasked.start, body=Seq(tuple(body), loc=masked.body.loc))


def _speculative_and_whole(loop: For) -> tuple[For, For] | None:
    """The two forms of a loop with a speculative step of a softmax, which are the bodies of a branch in it."""
    match loop.body:
        case Seq(body=(If(condition=Const(), then_body=then, else_body=other),)) if other is not None:
            return dataclasses.replace(loop, body=then), dataclasses.replace(loop, body=other)
    return None


def _is_rotated(loop: For) -> bool:
    """Whether an iteration ends with a gemm in flight."""
    waits = [s for s in sub_statements(loop.body) if isinstance(s, GemmWait)]
    return bool(waits) and waits[-1].pending > 0


def _with_unknown_condition(stmt: Stmt, zero: Var) -> Stmt:
    """The branch of a rotated loop that computes a gemm of the next iteration if there is one; others as they are."""
    if not isinstance(stmt, If) or not any(isinstance(s, Gemm) for s in walk(stmt)):
        return stmt
    condition = stmt.condition
    assert isinstance(condition, Binary)
    return dataclasses.replace(stmt, condition=binary(condition.op, condition.a, condition.b + zero))


PASS = Pass(
    "split_masked_loops", _run, Level.TILE, Level.TILE,
    requires=(Property.WARPS_SPECIALIZED, Property.OPERATORS_UNEXPANDED),
)
