"""Merges the programs of two warpgroups in ping-pong into one, in which the number of the warpgroup is a variable.

    if thread < 128:                        if thread < 256:
        own = thread                            own = thread % 128
        wait for order[0]; ...                  member = thread // 128 % 2
    if 128 <= thread < 256:            =>       wait for order[member]; ...
        own = thread - 128
        wait for order[1]; ...

Takes a thread-level launch. Until here each warpgroup has a program and staging tiles of its own, by which analyses
tell their memory and their barriers apart. Where the programs differ by constants in index arithmetic only, these
become linear functions of the number, and tiles become parts of one buffer. NVRTC then compiles one program, not two.

Invariant: each thread computes the same, at the same addresses.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping
from typing import TypeVar

from tilelang.arith.simplify import simplify
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Const, Expr, Load, Var, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import statements_of, with_statements
from tilelang.ir.stmt import Alloc, Atomic, Bind, Group, If, Launch, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, defined_variables, substitute
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS, schedule_of

T = TypeVar("T")

_OWN = tuple(Group(number * WARPGROUP_THREADS, WARPGROUP_THREADS) for number in range(2))


def merge_consumers(launch: Launch) -> Launch:
    """The launch with one program for both warpgroups in ping-pong, if it has them and their programs are alike."""
    schedule = schedule_of(launch)
    if schedule is None or not schedule.ping_pong or launch.thread is None:
        return launch
    consumers = _Consumers(launch.thread, dict(launch.plan.shared_offsets))
    body = consumers.visit(launch.body) or launch.body
    plan = dataclasses.replace(launch.plan, shared_offsets=tuple(consumers.offsets.items()))
    return launch if body is launch.body else dataclasses.replace(launch, body=body, plan=plan)


class _Consumers(Rewriter):
    """Merges the branches of the two warpgroups.

    Args:
        thread: The index of the executing thread.
        offsets: Where buffers lie in shared memory, in bytes.

    Attributes:
        offsets: The same with merged buffers.
    """

    def __init__(self, thread: Var, offsets: Mapping[Buffer, int]) -> None:
        self._thread, self.offsets = thread, offsets

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Seq):
            return node
        made: list[Stmt] = []
        for child in node.body:
            merged = self._merged(made[-1], child) if made else None
            if merged is not None:
                made[-1] = merged
            else:
                made.append(self.visit(child) or child)
        return with_statements(node, made)

    def _merged(self, first: Stmt, second: Stmt) -> Stmt | None:
        """One branch for both groups; None if the statements are not their branches, or not alike."""
        if not isinstance(first, If) or not isinstance(second, If) or first.group is None or second.group is None:
            return None
        if not first.group.same_threads(_OWN[0]) or not second.group.same_threads(_OWN[1]):
            return None
        (index, *inside), (other, *others) = (statements_of(branch.then_body) for branch in (first, second))
        assert isinstance(index, Bind)
        assert isinstance(other, Bind)
        member = Var("member", INT32, index=True)
        both = _Both(member, {other.var: index.var}, self.offsets)
        try:
            body = both.stmt(Seq(tuple(inside)), Seq(tuple(others)))
        except _Different:
            return None
        self.offsets = both.offsets
        binds = (
            dataclasses.replace(index, value=self._thread % WARPGROUP_THREADS),
            Bind(member, self._thread // WARPGROUP_THREADS % len(_OWN), loc=index.loc),
        )
        body = _InParts(both.parts).visit(body) or body
        body = Seq((*binds, *statements_of(body)), loc=first.then_body.loc)
        group = dataclasses.replace(first.group, count=len(_OWN) * WARPGROUP_THREADS)
        return If(group.condition(self._thread), body, group=group, loc=first.loc)


class _Different(Exception):
    """Two programs differ in more than constants of index arithmetic."""


class _Both:
    """Finds the program that two programs have in common; methods raise `_Different` if there is none.

    Args:
        member: 0 in the first program, 1 in the second.
        variables: Variables of the second program, with what they are in the first.
        offsets: Where buffers lie in shared memory, in bytes.

    Attributes:
        offsets: The same with the buffers of the common program.
        parts: Buffers of the first program that become a part of a larger one, and the index at which it begins.
    """

    def __init__(self, member: Var, variables: Mapping[Var, Var], offsets: Mapping[Buffer, int]) -> None:
        self._member = member
        self._variables: dict[Var, Expr] = dict(variables)
        self._buffers: dict[Buffer, Buffer] = {}
        self.offsets = dict(offsets)
        self.parts: dict[Buffer, tuple[Buffer, Expr]] = {}

    def stmt(self, first: Stmt, second: Stmt) -> Stmt:
        """The statement that stands for both."""
        if type(first) is not type(second) or isinstance(first, If) and first.group is not None:
            raise _Different  # groups are numbered in the block
        for ours, theirs in zip(defined_variables(first), defined_variables(second), strict=False):
            if (ours.dtype, ours.index) != (theirs.dtype, theirs.index):
                raise _Different
            self._variables[theirs] = ours
        if isinstance(first, Alloc) and isinstance(second, Alloc):
            self._alloc(first.buffer, second.buffer)
        return self._fields(first, second)

    def _fields(self, first: T, second: T) -> T:
        changes = {}
        for field in dataclasses.fields(first):  # type: ignore[arg-type]
            if field.name != "loc":
                old = getattr(first, field.name)
                new = self._value(old, getattr(second, field.name))
                if new is not old:
                    changes[field.name] = new
        return dataclasses.replace(first, **changes) if changes else first  # type: ignore[type-var]

    def _value(self, first: object, second: object) -> object:
        """The value of a field."""
        if isinstance(first, Expr) and isinstance(second, Expr):
            return self._expr(first, second)
        if isinstance(first, Stmt) and isinstance(second, Stmt):
            return self.stmt(first, second)
        if isinstance(first, Region) and isinstance(second, Region):
            return self._fields(first, second)
        if isinstance(first, tuple) and isinstance(second, tuple) and len(first) == len(second):
            parts = tuple([self._value(a, b) for a, b in zip(first, second, strict=True)])
            return first if all(map(operator.is_, parts, first)) else parts
        if isinstance(second, Buffer):
            second = self._buffers.get(second, second)
        if first != second:
            raise _Different
        return first

    def _expr(self, first: Expr, second: Expr) -> Expr:
        if isinstance(second, Var):
            second = self._variables.get(second, second)
        if first is second:
            return first
        if isinstance(first, Var | Const):
            if same_expr(first, second):
                return first
        elif type(first) is type(second):
            try:
                return self._fields(first, second)
            except _Different:
                pass  # the sums may differ by a constant nevertheless
        second = substitute(second, self._variables)
        distance = int_const(simplify(second - first)) if first.is_index and second.is_index else None
        if distance is None or first.dtype != second.dtype:
            raise _Different
        return simplify(first + self._member * distance)

    def _alloc(self, first: Buffer, second: Buffer) -> None:
        """Two allocations, which become parts of one buffer where they are at different places in shared memory."""
        kinds = [(each.dtype, each.scope, each.static_shape, each.strides) for each in (first, second)]
        if kinds[0] != kinds[1] or first.static_shape is None or first.address is not None:
            raise _Different
        if self._value(first.view_of, second.view_of) in self.parts:
            raise _Different
        self._buffers[second] = first
        if first.scope is not Scope.SHARED or first.view_of is not None:
            return
        begin, end, width = self.offsets.pop(first), self.offsets.pop(second), first.dtype.storage_bytes
        ((elements,), low) = first.static_shape, min(begin, end)
        if (end - begin) % width:
            raise _Different
        distance = (end - begin) // width
        whole = dataclasses.replace(first, shape=(const(abs(distance) + elements, INT32),))
        self.offsets[whole] = low
        self.parts[first] = whole, simplify((begin - low) // width + self._member * distance)


class _InParts(Rewriter):
    """Moves accesses into parts of larger buffers."""

    def __init__(self, parts: Mapping[Buffer, tuple[Buffer, Expr]]) -> None:
        self._parts = parts

    def expr(self, node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer in self._parts:
            return Load(self._parts[node.buffer][0], self._indices(node.buffer, self.exprs(node.indices)), node.dtype)
        return self.rebuild_expr(node)

    def region(self, node: Region) -> Region:
        made = Rewriter.region(self, node)
        if node.buffer not in self._parts:
            return made
        return Region(self._parts[node.buffer][0], self._indices(node.buffer, made.start), made.extent)

    def stmt(self, node: Stmt) -> Stmt | None:
        made = self.rebuild_stmt(node)
        if not isinstance(made, Alloc | Store | Atomic) or made.buffer not in self._parts:
            return made
        whole = self._parts[made.buffer][0]
        if isinstance(made, Alloc):
            return dataclasses.replace(made, buffer=whole)
        return dataclasses.replace(made, buffer=whole, indices=self._indices(made.buffer, made.indices))

    def _indices(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        (index,), begin = indices, self._parts[buffer][1]
        return (begin if int_const(index) == 0 else index + begin,)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, merge_consumers)


PASS = Pass(
    "merge_consumers", _run, Level.THREAD, Level.THREAD,
    requires=(Property.SHARED_MEMORY_FLAT, Property.GROUP_BARRIERS_INSERTED, Property.THREAD_GROUPS_DETECTED),
)
