"""Seeded faults: bugs of GPU kernels, put into correct thread-level programs one at a time.

Takes a thread-level function, gives variants of it that each have one fault: a barrier, wait or commit removed, a wait
for too few groups, a bounds check or predicate removed, an index shifted, the layout of one access to shared memory
altered, a stage fewer, an iteration more or fewer, a shuffle from the wrong lane. Every fault changes what the program
does: loops whose bodies check their own bounds, for instance, are not extended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from tilelang.dtypes import BOOL
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Binary, Const, Expr, Load, Select, Var, binary, const, int_const
from tilelang.ir.func import PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Atomic, Bind, CallStmt, For, If, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, expressions, walk, walk_expr
from tilelang.isa.instruction import Effect, Instruction

MEMORY = (Scope.SHARED, Scope.GLOBAL)


@dataclasses.dataclass(frozen=True)
class Fault:
    """One variant, which is made when it is asked for: most are only counted.

    Attributes:
        kind: The kind of fault.
        program: The program without it.
        change: What makes a fault of this kind at a statement.
        number: Which one of those that the change makes in the program.
    """

    kind: str
    program: PrimFunc
    change: Change
    number: int

    @cached_property
    def _made(self) -> tuple[str, PrimFunc]:
        match = _NthMatch(self.change, self.number)
        body = match.visit(self.program.body)
        assert match.seeded is not None
        return match.seeded, dataclasses.replace(self.program, body=body or Seq(()))

    @property
    def place(self) -> str:
        """Where it is."""
        return self._made[0]

    @property
    def func(self) -> PrimFunc:
        """The program with it."""
        return self._made[1]


def sample(corpora: Mapping[str, Sequence[Fault]], every: int) -> dict[str, list[Fault]]:
    """Of the faults of each kind one in so many, but at least one, by the program that they are in."""
    kinds: dict[str, list[tuple[str, Fault]]] = {}
    for name, faults in corpora.items():
        for fault in faults:
            kinds.setdefault(fault.kind, []).append((name, fault))
    chosen: dict[str, list[Fault]] = {name: [] for name in corpora}
    for kind, found in kinds.items():
        for name, fault in found[(sum(map(ord, kind)) + 1) % min(every, len(found)) :: every]:
            chosen[name].append(fault)
    return chosen


def seeded_faults(func: PrimFunc, changes: Mapping[str, Change] | None = None) -> Iterator[Fault]:
    """Every fault of these kinds, by default of all below, at every place of the program where it applies."""
    for kind, change in (CHANGES if changes is None else changes).items():
        for number, _ in enumerate(new for node in walk(func.body) for new in change(node)):
            yield Fault(kind, func, change, number)


class _NthMatch(Rewriter):
    """Applies a change at the n-th place that it matches."""

    def __init__(self, change: Change, place: int) -> None:
        self._change, self._left, self.seeded = change, place, None

    def stmt(self, node: Stmt) -> Stmt | None:
        if self.seeded is None:
            for new in self._change(node):
                if self._left == 0:
                    self.seeded = f"line {node.loc.line}: {type(node).__name__}"
                    return new
                self._left -= 1
        return self.rebuild_stmt(node) if self.seeded is None else node


Change = Callable[[Stmt], Iterator[Stmt | None]]


def _is(node: Stmt, effect: Effect) -> bool:
    return isinstance(node, CallStmt) and isinstance(node.routine, Instruction) and bool(node.routine.effect & effect)


def without_barrier(node: Stmt) -> Iterator[Stmt | None]:
    if _is(node, Effect.SYNC_BLOCK | Effect.SYNC_SOME | Effect.SYNC_WARP):
        yield None


def without_wait(node: Stmt) -> Iterator[Stmt | None]:
    if _is(node, Effect.WAIT):
        yield None


def without_bounds_check(node: Stmt) -> Iterator[Stmt | None]:
    """A store, or a block of stores, that happens whether or not it is in range."""
    if isinstance(node, If) and node.else_body is None and _tests_a_bound(node.condition) and _stores(node.then_body):
        yield node.then_body


def without_select(node: Stmt) -> Iterator[Stmt | None]:
    """A load that happens whether or not it is in range."""
    if isinstance(node, Store) and isinstance(node.value, Select) and isinstance(node.value.a, Load):
        if node.value.a.buffer.scope is Scope.GLOBAL:
            yield dataclasses.replace(node, value=node.value.a)


def without_predicate(node: Stmt) -> Iterator[Stmt | None]:
    """An asynchronous copy that happens whether or not it is in range."""
    if isinstance(node, CallStmt) and isinstance(node.routine, Instruction) and node.routine.predicate is not None:
        position = node.routine.predicate
        if not isinstance(node.args[position], Const):
            args = (*node.args[:position], Const(True, BOOL), *node.args[position + 1 :])
            yield dataclasses.replace(node, args=args)


def shifted_store(node: Stmt) -> Iterator[Stmt | None]:
    if isinstance(node, Store) and node.buffer.scope in MEMORY and node.indices:
        *leading, last = node.indices
        yield dataclasses.replace(node, indices=(*leading, last + 1))


def shifted_load(node: Stmt) -> Iterator[Stmt | None]:
    if isinstance(node, Store | Bind):
        loads = [e for e in walk_expr(node.value) if isinstance(e, Load) and e.buffer.scope in MEMORY and e.indices]
        for load in loads:
            *leading, last = load.indices
            moved = Load(load.buffer, (*leading, last + 1), load.dtype)
            yield dataclasses.replace(node, value=Swap(load, moved).expr(node.value))


def shifted_operand(node: Stmt) -> Iterator[Stmt | None]:
    """An instruction that works on memory beside the right place."""
    if isinstance(node, CallStmt):
        for position, arg in enumerate(node.args):
            if isinstance(arg, Region) and arg.buffer.scope in MEMORY and arg.start:
                *leading, last = arg.start
                moved = Region(arg.buffer, (*leading, last + 8), arg.extent)
                yield dataclasses.replace(node, args=(*node.args[:position], moved, *node.args[position + 1 :]))


def altered_layout(node: Stmt) -> Iterator[Stmt | None]:
    """One access that disagrees with the others about where elements of a swizzled tile lie."""
    if isinstance(node, CallStmt):
        for position, arg in enumerate(node.args):
            if isinstance(arg, Region) and arg.buffer.scope is Scope.SHARED:
                swapped = _without_xor(arg.start[-1])
                if swapped is not None:
                    region = Region(arg.buffer, (*arg.start[:-1], swapped), arg.extent)
                    yield dataclasses.replace(node, args=(*node.args[:position], region, *node.args[position + 1 :]))


def fewer_stages(node: Stmt) -> Iterator[Stmt | None]:
    """A buffer whose versions come round one iteration too early, for one access."""
    if isinstance(node, CallStmt):
        for position, arg in enumerate(node.args):
            if isinstance(arg, Region) and arg.buffer.scope is Scope.SHARED:
                for changed in _with_smaller_modulus(arg.start):
                    region = Region(arg.buffer, changed, arg.extent)
                    yield dataclasses.replace(node, args=(*node.args[:position], region, *node.args[position + 1 :]))


def loop_too_short(node: Stmt) -> Iterator[Stmt | None]:
    if isinstance(node, For) and _touches_memory(node.body) and not _tests_bounds_itself(node):
        yield dataclasses.replace(node, stop=node.stop - 1)


def loop_too_long(node: Stmt) -> Iterator[Stmt | None]:
    if isinstance(node, For) and _touches_memory(node.body) and not _tests_bounds_itself(node):
        yield dataclasses.replace(node, stop=node.stop + 1)


def wrong_lane(node: Stmt) -> Iterator[Stmt | None]:
    """A shuffle that asks the wrong lane."""
    if isinstance(node, CallStmt) and node.routine.name.startswith("shuffle") and int_const(node.args[2]) is not None:
        offset = node.args[2]
        args = (*node.args[:2], const(int_const(offset) * 2, offset.dtype), *node.args[3:])
        yield dataclasses.replace(node, args=args)


CHANGES: dict[str, Change] = {
    "barrier removed": without_barrier,
    "wait removed": without_wait,
    "bounds check removed": without_bounds_check,
    "bounds check of a load removed": without_select,
    "predicate removed": without_predicate,
    "store shifted": shifted_store,
    "load shifted": shifted_load,
    "operand shifted": shifted_operand,
    "layout altered": altered_layout,
    "fewer stages": fewer_stages,
    "loop too short": loop_too_short,
    "loop too long": loop_too_long,
    "wrong lane": wrong_lane,
}


class Swap(Rewriter):
    """Puts one expression in the place of another, found by identity."""

    def __init__(self, old: Expr, new: Expr) -> None:
        self._old, self._new = old, new

    def expr(self, node: Expr) -> Expr:
        return self._new if node is self._old else self.rebuild_expr(node)


def _tests_a_bound(condition: Expr) -> bool:
    return any(isinstance(e, Binary) and e.op in (BinaryOp.LT, BinaryOp.LE, BinaryOp.GE) for e in walk_expr(condition))


def _tests_bounds_itself(loop: For) -> bool:
    """Whether something in the body only happens in range, so that another iteration may do nothing."""
    guarded = any(isinstance(s, If) for s in walk(loop.body))
    selected = any(isinstance(e, Select) for s in walk(loop.body) for root in expressions(s) for e in walk_expr(root))
    predicated = any(
        isinstance(s, CallStmt) and isinstance(s.routine, Instruction) and s.routine.predicate is not None
        and not isinstance(s.args[s.routine.predicate], Const)
        for s in walk(loop.body)
    )  # fmt: skip
    return guarded or selected or predicated


def _stores(stmt: Stmt) -> bool:
    return any(isinstance(s, Store | Atomic) and s.buffer.scope in MEMORY for s in walk(stmt))


def _touches_memory(stmt: Stmt) -> bool:
    if _stores(stmt):
        return True
    for s in walk(stmt):
        if isinstance(s, CallStmt) and any(r.buffer.scope in MEMORY for r in (*s.reads, *s.writes)):
            return True
        if any(isinstance(e, Load) and e.buffer.scope in MEMORY for root in expressions(s) for e in walk_expr(root)):
            return True
    return False


def _without_xor(index: Expr) -> Expr | None:
    for e in walk_expr(index):
        if isinstance(e, Binary) and e.op is BinaryOp.BITXOR:
            return Swap(e, e.a).expr(index)
    return None


def _with_smaller_modulus(indices: tuple[Expr, ...]) -> Iterator[tuple[Expr, ...]]:
    for position, index in enumerate(indices):
        for e in walk_expr(index):
            modulus = int_const(e.b) if isinstance(e, Binary) and e.op in _MODULO else None
            if modulus in (2, 3, 4) and _counts_iterations(e.a):
                smaller = binary(e.op, e.a, const(modulus - 1, e.b.dtype))
                yield (*indices[:position], Swap(e, smaller).expr(index), *indices[position + 1 :])


_MODULO = (BinaryOp.FLOORMOD, BinaryOp.TRUNCMOD)


def _counts_iterations(expr: Expr) -> bool:
    """Whether an expression counts iterations of a loop, and not threads."""
    names = {e.name for e in walk_expr(expr) if isinstance(e, Var)}
    return bool(names) and not names & {"thread", "lane", "warp"}
