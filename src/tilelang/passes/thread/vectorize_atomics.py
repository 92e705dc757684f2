"""Vectorizes atomic additions: additions to contiguous elements of global memory become one vector instruction.

Takes a thread-level function; adjacent statements and unrolled loops that add to contiguous elements, without using the
previous values, become additions of aligned vectors of up to 16 bytes. Each element is atomic by itself:

    atomic_add(C[i * 4], x[0])
    atomic_add(C[i * 4 + 1], x[1])     =>    atomic_add(C[i * 4 : i * 4 + 4], pack(x[0], x[1], x[2], x[3]))
    ...

A memory request of a warp then accesses each sector once instead of four times, where neighboring lanes add to
elements four apart. Invariant: the same elements get the same addends; relaxed additions are unordered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from tilelang.analysis.access_width import Facts, vector_width
from tilelang.arith.domain import Domain, facts_after, of_function
from tilelang.arith.interval import Analysis, analysis_of
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Expr, Load, Var, const, int_const, unary
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import UnaryOp
from tilelang.ir.sequences import with_statements
from tilelang.ir.stmt import Atomic, AtomicOp, For, ForKind, If, Launch, MemoryOrder, Seq, Stmt, While
from tilelang.ir.vector import pack, vector_dtype
from tilelang.ir.visit import expressions, loads_of, substitute_stmt
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.targets.machine import Machine

VectorLanes = Mapping[str, tuple[int, ...]]
"""Lanes of vector additions that a machine has an instruction for, by dtype, longest first."""

_MAX_TRIPS = 64  # longer loops are not unrolled


class _VectorizeAtomics:
    """Rewrites statements, given the facts that hold at each."""

    def __init__(self, facts: Facts, lanes: VectorLanes) -> None:
        self._facts, self._lanes = facts, lanes

    def stmt(self, node: Stmt, domain: Domain) -> Stmt:
        """The statement with its atomic additions vectorized."""
        match node:
            case Launch():
                return self._launch(node, domain)
            case Seq():
                return self._seq(node, domain)
            case For():
                unrolled = self._unrolled(node, domain)
                if unrolled is not None:
                    return unrolled
                inside = domain.with_loop(node.var, node.start, node.stop, node.step)
                return _with_body(node, self.stmt(node.body, inside))
            case If():
                then = self.stmt(node.then_body, domain.assume(node.condition))
                other = node.else_body and self.stmt(node.else_body, domain.assume(unary(UnaryOp.NOT, node.condition)))
                same = then is node.then_body and other is node.else_body
                return node if same else dataclasses.replace(node, then_body=then, else_body=other)
            case While():
                return _with_body(node, self.stmt(node.body, domain))
        return node

    def _launch(self, node: Launch, domain: Domain) -> Stmt:
        domain = domain.with_extents(node.block_vars, node.grid)
        if node.thread is not None:
            domain = domain.with_range(node.thread, 0, node.num_threads - 1)
        inside = _VectorizeAtomics(Facts(dict(node.plan.shared_layouts)), self._lanes)
        return _with_body(node, inside.stmt(node.body, domain))

    def _seq(self, node: Seq, domain: Domain) -> Stmt:
        statements: list[Stmt] = []
        run: list[Atomic] = []
        for child in node.body:
            plain = child if isinstance(child, Atomic) and self._is_plain(child) else None
            if plain is None or run and not _follows(run, plain, analysis_of(domain)):
                statements += self._grouped(run, domain)
                run = []
            if plain is not None:
                run.append(plain)
            else:
                statements.append(self.stmt(child, domain))
            domain = facts_after(child, domain)
        statements += self._grouped(run, domain)
        return with_statements(node, statements)

    def _unrolled(self, node: For, domain: Domain) -> Stmt | None:
        """The vector additions of an unrolled loop; None for other loops."""
        trips, body = int_const(node.stop), node.body
        if isinstance(body, Seq) and len(body.body) == 1:
            (body,) = body.body
        if node.kind is not ForKind.UNROLLED or int_const(node.start) != 0 or node.step != 1:
            return None
        if trips is None or not 2 <= trips <= _MAX_TRIPS or not isinstance(body, Atomic) or not self._is_plain(body):
            return None
        each = [substitute_stmt(body, {node.var: const(n, INT32)}) for n in range(trips)]
        run = [stmt for stmt in each if isinstance(stmt, Atomic)]
        if not all(_follows(run[:n], run[n], analysis_of(domain)) for n in range(1, trips)):
            return None
        updates = self._grouped(run, domain)
        return None if len(updates) == trips else Seq(tuple(updates), loc=node.loc)

    def _grouped(self, run: Sequence[Atomic], domain: Domain) -> list[Stmt]:
        """A run of additions to contiguous elements, in vectors as long as possible."""
        updates: list[Stmt] = []
        at = 0
        while at < len(run):
            widths = self._lanes[str(run[at].buffer.dtype)]
            count = next((n for n in widths if self._fits(run[at : at + n], n, domain)), 1)
            updates.append(self._vector(run[at : at + count], domain) if count > 1 else run[at])
            at += count
        return updates

    def _is_plain(self, stmt: Atomic) -> bool:
        """Whether a statement is a relaxed atomic addition to global memory whose result is unused."""
        if stmt.op is not AtomicOp.ADD or stmt.result is not None or stmt.order is not MemoryOrder.RELAXED:
            return False
        buffer, value = stmt.buffer, stmt.value
        if buffer.scope is not Scope.GLOBAL or str(buffer.dtype) not in self._lanes or value is None:
            return False
        if value.dtype != buffer.dtype:
            return False
        read = (node for root in expressions(stmt) for node in loads_of(root))
        return bool(stmt.indices) and all(node.buffer.storage is not buffer.storage for node in read)

    def _fits(self, run: Sequence[Atomic], lanes: int, domain: Domain) -> bool:
        """Whether a run fills an aligned vector of `lanes` lanes."""
        return len(run) == lanes and self._width(run[0].buffer, run[0].indices, lanes, domain) == lanes

    def _width(self, buffer: Buffer, first: tuple[Expr, ...], lanes: int, domain: Domain) -> int:
        var = Var("lane", INT32, index=True)
        return vector_width(buffer, (*first[:-1], first[-1] + var), var, lanes, domain, self._facts)

    def _vector(self, run: Sequence[Atomic], domain: Domain) -> Atomic:
        values = [stmt.value for stmt in run if stmt.value is not None]
        loaded = self._vector_load(values, domain)
        return dataclasses.replace(run[0], value=pack(values) if loaded is None else loaded)

    def _vector_load(self, values: Sequence[Expr], domain: Domain) -> Expr | None:
        """A vector load of contiguous elements of shared memory; None for other values."""
        loads = [value for value in values if isinstance(value, Load)]
        first = loads[0] if loads else None
        if first is None or len(loads) < len(values) or first.buffer.scope is not Scope.SHARED:
            return None
        if any(load.buffer is not first.buffer or load.dtype != first.buffer.dtype for load in loads):
            return None
        indices = [load.indices for load in loads]
        if not all(_is_at_distance(indices[0], place, n, analysis_of(domain)) for n, place in enumerate(indices)):
            return None
        if self._width(first.buffer, first.indices, len(loads), domain) < len(loads):
            return None
        return Load(first.buffer, first.indices, vector_dtype(first.dtype, len(loads)))


def _follows(run: Sequence[Atomic], stmt: Atomic, analysis: Analysis) -> bool:
    """Whether a statement adds to the element after those of a run."""
    first = run[0]
    if first.buffer is not stmt.buffer or first.scope is not stmt.scope:
        return False
    return _is_at_distance(first.indices, stmt.indices, len(run), analysis)


def _is_at_distance(a: tuple[Expr, ...], b: tuple[Expr, ...], distance: int, analysis: Analysis) -> bool:
    """Whether the last index of `b` is that of `a` plus `distance`, and all others are equal."""
    if not all(same_expr(x, y) for x, y in zip(a[:-1], b[:-1], strict=True)):
        return False
    gap = analysis.sum(b[-1]).plus(analysis.sum(a[-1]), -1)
    return not gap.terms and gap.constant == distance


def _with_body(node: Launch | For | While, body: Stmt) -> Stmt:
    return node if body is node.body else dataclasses.replace(node, body=body)


def vectorize_atomics(lanes_of: Callable[[Machine], VectorLanes]) -> Pass:
    """The pass for the machines of a vendor; `lanes_of` gives the vector additions of one."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        rewrite = _VectorizeAtomics(Facts(), lanes_of(context.target.machine))
        return with_body(func, rewrite.stmt(func.body, of_function(func)))

    return Pass(
        "vectorize_atomics", run, Level.THREAD, Level.THREAD,
        requires=(Property.ACCESSES_VECTORIZED, Property.ACCESSES_UNPREDICATED),
    )
