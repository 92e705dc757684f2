"""Makes values and branches of whole warps provably warp-uniform: they use the warp index of the first lane.

    if thread >= 256:  ...              warp = the first lane's thread // 32
    if thread < 256:                 => if warp >= 8:  ...
        half = thread // 128            else:
                                            half = warp // 4

Takes a thread-level launch whose groups are whole warps, gives one in which the index of the executing warp is
shuffled from its first lane, and in which consecutive groups form one if-else chain. ptxas then keeps matrix
descriptors, stages, barrier addresses and tile coordinates in uniform registers. Otherwise each wgmma needs 4 moves
from vector to uniform registers: an iteration of 128x256x64 has 77 instructions instead of 51 with ptxas 13.0. One
chain is needed because ptxas assumes divergence after each branch that ends by itself. Loops that follow each other
shuffle the index again: ptxas does not keep it in a uniform register from one to the next. With that an iteration of
the backward pass of attention behind its masked ones has 482 instructions instead of 562 with ptxas 13.0.

Invariant: each thread computes the same. This is the last pass about thread groups: their records are removed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilelang.arith.domain import Domain
from tilelang.arith.simplify import simplify
from tilelang.dtypes import INT32, SCALARS
from tilelang.errors import Loc
from tilelang.ir.expr import Binary, Expr, Var, binary, conjunction, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Bind, CallStmt, For, ForKind, Group, If, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, variables_of, walk, walk_expr
from tilelang.isa.instruction import Instruction
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.records import record
from tilelang.targets.gpu.isa.warp import shuffle
from tilelang.targets.nvidia.isa.async_units import WGMMA
from tilelang.targets.nvidia.machines import WARP_SIZE

_ALL_LANES = const(2**WARP_SIZE - 1, SCALARS["uint32"])
_QUOTIENTS = (BinaryOp.FLOORDIV, BinaryOp.TRUNCDIV)  # of thread indices, which are not negative
_ORDERS = (BinaryOp.LT, BinaryOp.GE)


def make_warp_uniform(launch: Launch) -> Launch:
    """The launch with a uniform warp index, if it has groups of whole warps."""
    thread = launch.thread
    if thread is None or not any(isinstance(s, If) and _is_of_warps(s.group) for s in walk(launch.body)):
        return launch
    if launch.num_threads % WARP_SIZE:
        return launch
    index = _WarpIndex(thread, launch.num_threads // WARP_SIZE)
    warp, prologue = index.shuffled(launch.loc)
    block = Group(0, launch.num_threads)
    body = _UniformGroups(warp, index, {thread: 0}, block).visit(launch.body) or Seq((), loc=launch.loc)
    return dataclasses.replace(launch, body=Seq((*prologue, *statements_of(body)), loc=launch.body.loc))


@record(slots=True)
class _WarpIndex:
    """The index of the executing warp in a block.

    Attributes:
        thread: The index of the executing thread.
        warps: How many warps there are.
    """

    thread: Var
    warps: int

    def shuffled(self, loc: Loc) -> tuple[Var, tuple[Stmt, ...]]:
        """A name of the index, and the statements that take it from the first lane."""
        warp, first = (Var(name, INT32, index=True) for name in ("warp", "first_lane"))
        lanes = (_ALL_LANES, self.thread // WARP_SIZE, const(0, INT32), const(WARP_SIZE, INT32))
        # provably not negative, so that a division is a shift
        masked = binary(BinaryOp.BITAND, first, const(2 ** (self.warps - 1).bit_length() - 1, INT32))
        return warp, (CallStmt(shuffle("idx", INT32), lanes, result=first, loc=loc), Bind(warp, masked, loc=loc))


def _multiplies(stmt: Stmt | None) -> bool:
    """Whether a statement is a loop with matrix instructions whose operands are in uniform registers."""
    return isinstance(stmt, For) and stmt.kind is not ForKind.UNROLLED and any(
        isinstance(s, CallStmt) and isinstance(s.routine, Instruction) and s.routine.async_unit is WGMMA
        for s in walk(stmt)
    )


def _is_of_warps(group: Group | None) -> bool:
    return group is not None and group.first % WARP_SIZE == 0 and group.count % WARP_SIZE == 0


class _UniformGroups(Rewriter):
    """Rewrites the body of a group of threads, or of the block.

    Args:
        warp: The uniform index of the executing warp in the block.
        index: Where it comes from.
        numbers: Variables that hold its index in groups, each with the first warp of its group.
        threads: The threads that run the body.
    """

    def __init__(self, warp: Var, index: _WarpIndex, numbers: Mapping[Var, int], threads: Group) -> None:
        self._warp, self._index, self._numbers, self._threads = warp, index, dict(numbers), threads
        self._thread = index.thread

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Seq):
            return self._sequence(node)
        if isinstance(node, If) and node.group is not None:
            return self._branches([(node, node.group)])
        return self.rebuild_stmt(node)

    def _sequence(self, node: Seq) -> Stmt:
        body: list[Stmt] = []
        branches: list[tuple[If, Group]] = []
        in_turn = sum(map(_multiplies, node.body)) > 1
        for child in (*node.body, None):
            group = child.group if isinstance(child, If) else None
            continues_chain = group is not None and all(not g.overlaps(group) for _, g in branches)
            continues_chain = continues_chain and all(map(_is_of_warps, (group, *(g for _, g in branches))))
            if branches and not continues_chain:
                body.append(self._branches(branches))
                branches = []
            if isinstance(child, If) and group is not None:
                branches.append((child, group))
            elif in_turn and child is not None and _multiplies(child):
                body += self._with_own_index(child)
            elif child is not None:
                rewritten = self._thread_number(child) if isinstance(child, Bind) else self.visit(child)
                body += [] if rewritten is None else [rewritten]
        return Seq(tuple(body), loc=node.loc)

    def _with_own_index(self, loop: Stmt) -> list[Stmt]:
        """A loop that shuffles the index of the warp for itself."""
        warp, shuffled = self._index.shuffled(loop.loc)
        rewritten = _UniformGroups(warp, self._index, self._numbers, self._threads).visit(loop)
        return [*shuffled, *(() if rewritten is None else (rewritten,))]

    def _thread_number(self, node: Bind) -> Stmt | None:
        """A binding; one of the thread's index in a group is recorded.

        Its new value is provably not negative, which the removed predicate on the thread implied.
        """
        first: int | None = None
        if node.var.is_index and self._depends_on_thread(node.value):
            first = int_const(simplify(self._thread - self._in_block(node.value), Domain()))
        if first is None or first % WARP_SIZE:
            return self.visit(node)
        self._numbers[node.var] = first // WARP_SIZE
        if not first:
            return dataclasses.replace(node, value=self._thread)
        mask_range = 2 ** (self._threads.count - 1).bit_length()
        if (first, first % mask_range) == (self._threads.first, 0):
            return dataclasses.replace(node, value=binary(BinaryOp.BITAND, self._thread, const(mask_range - 1, INT32)))
        return dataclasses.replace(node, value=binary(BinaryOp.MAX, self._thread - first, const(0, INT32)))

    def _depends_on_thread(self, expr: Expr) -> bool:
        """Whether an expression has the index of the executing thread in the block or in a group."""
        return not variables_of(expr).isdisjoint(self._numbers)

    def _in_block(self, value: Expr) -> Expr:
        """An index in a group, expressed by the thread's index in the block where possible."""
        if isinstance(value, Var) and value in self._numbers:
            return self._thread - self._numbers[value] * WARP_SIZE
        if isinstance(value, Binary) and value.op in (BinaryOp.ADD, BinaryOp.SUB):
            return binary(value.op, self._in_block(value.a), value.b)
        return value

    def _branches(self, groups: Sequence[tuple[If, Group]]) -> Stmt:
        """Disjoint groups as one if-else chain."""
        chain: Stmt | None = None
        exhaustive = sum(group.count for _, group in groups) == self._threads.count
        for node, group in reversed(groups):
            whole = _is_of_warps(group)
            inside = _UniformGroups(self._warp, self._index, self._numbers, group if whole else self._threads)
            then = inside.visit(node.then_body) or Seq((), loc=node.loc)
            if whole and exhaustive and chain is None:
                chain = then  # the last group needs no test: the groups are exhaustive
                continue
            condition = self._condition(group) if whole else self.expr(node.condition)
            chain = dataclasses.replace(
                node, condition=condition, then_body=then, else_body=chain, group=None if whole else group
            )
        assert chain is not None
        return chain

    def _condition(self, group: Group) -> Expr:
        """Whether the executing warp is in a group, given that it is in `self._threads`."""
        tests = []
        if group.first > self._threads.first:
            tests.append(self._warp >= group.first // WARP_SIZE)
        if group.end < self._threads.end:
            tests.append(self._warp < group.end // WARP_SIZE)
        return conjunction(tests)

    def expr(self, node: Expr) -> Expr:
        """Rewrites uniform expressions by the warp index; expressions that differ between lanes stay.

        Rewriting addresses of lanes, too, would take more registers: ptxas would keep uniform and other parts apart.
        """
        if not self._depends_on_thread(node):
            return node
        if isinstance(node, Binary) and node.op in (BinaryOp.AND, BinaryOp.OR):
            return self.rebuild_expr(node)
        uniform = _UniformExprs(self._warp, self._numbers).expr(node)
        return node if any(isinstance(part, Var) and part in self._numbers for part in walk_expr(uniform)) else uniform


class _UniformExprs(Rewriter):
    """Rewrites quotients and comparisons that are the same for all lanes by the warp index."""

    def __init__(self, warp: Var, numbers: Mapping[Var, int]) -> None:
        self._warp, self._numbers = warp, numbers

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Binary) and isinstance(node.a, Var) and node.a in self._numbers:
            by = int_const(node.b)
            if by is not None and by % WARP_SIZE == 0 and by > 0:
                first, warps = self._numbers[node.a], by // WARP_SIZE
                if node.op in _QUOTIENTS:
                    number = self._warp - first if first else self._warp
                    return number if warps == 1 else binary(node.op, number, const(warps, INT32))
                if node.op in _ORDERS:
                    return binary(node.op, self._warp, const(warps + first, INT32))
        return self.rebuild_expr(node)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, make_warp_uniform)


PASS = Pass(
    "make_warp_uniform", _run, Level.THREAD, Level.THREAD,
    requires=(Property.THREAD_GROUPS_DETECTED, Property.GROUP_BARRIERS_INSERTED),
    invalidates=(Property.THREAD_GROUPS_DETECTED,),
)
