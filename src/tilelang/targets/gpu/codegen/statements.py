"""Prints the statements of one thread's program for languages of GPUs; subclasses implement what differs.

Takes statements of the program of a thread, gives lines. Invariant: shared buffers are pointers into one arena, at the
offsets of the launch's plan.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence, Set

from tilelang.codegen.c_expr import ExprPrinter
from tilelang.codegen.c_stmt import StmtPrinter
from tilelang.codegen.emitter import Emitter
from tilelang.codegen.pointer_increments import pointer_increments
from tilelang.errors import CompilerBug, Loc
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.compare import ExprKey
from tilelang.ir.expr import Expr, cast, int_const
from tilelang.ir.stmt import Alloc, Atomic, CallStmt, For, ForKind, Launch, Stmt
from tilelang.ir.visit import walk
from tilelang.isa.instruction import AsyncUnit, Effect, Instruction
from tilelang.isa.intrinsic import Template

ARENA = "tl_shared"
FAILED = "tl_failed"
_ROLLED = "#pragma unroll 1"


class ThreadStmtPrinter(StmtPrinter):
    """Appends the text of statements to an emitter.

    Args:
        out: Receives the lines.
        exprs: Prints the expressions.
        launch: The launch that they are of, with the offsets of its shared buffers.
        written: The buffers that the kernel may write; pointers to others are to constants.
        asserts: Receives message, place and hint of each assertion.

    Attributes:
        brief: A unit whose work is no reason to keep a loop rolled: loops of nothing else are those of one tile.
        few_trips: So short a loop is better unrolled, whatever it waits for.
    """

    brief: AsyncUnit | None = None
    few_trips: int = 4

    def __init__(
        self,
        out: Emitter,
        exprs: ExprPrinter,
        launch: Launch,
        written: Set[Buffer],
        asserts: list[tuple[str, Loc, str]],
    ) -> None:
        super().__init__(out, exprs, asserts)
        plan = launch.plan
        self._launch_thread = launch.thread
        self._offsets: dict[Buffer, int | Expr] = {**dict(plan.shared_offsets), **dict(plan.dynamic_shared_offsets)}
        self._written = written

    def _alloc(self, node: Alloc) -> None:
        buffer, exprs = node.buffer, self._exprs
        if buffer.view_of is not None:
            base = self._names[buffer.view_of]
            kind = pointer_type(buffer, exprs, self._written)
            self._out.line(f"{kind} const {self._names.declare(buffer)} = ({kind}){base};")
            return
        if buffer.address is not None:
            kind, address = pointer_type(buffer, exprs, self._written), exprs.index(buffer.address)
            self._out.line(f"{kind} const {self._names.declare(buffer)} = ({kind})({address});")
            return
        name, kind = self._names.declare(buffer), exprs.storage(buffer.dtype)
        if buffer.scope in (Scope.SHARED, Scope.BARRIER):
            if buffer not in self._offsets:
                raise CompilerBug(f"codegen: '{buffer.name}' has no offset in shared memory")
            offset = self._offsets[buffer]
            text = exprs.index(offset) if isinstance(offset, Expr) else str(offset)
            start = ARENA if text == "0" else f"({ARENA} + {text})"
            self._out.line(f"{kind}* const {name} = ({kind}*){start};")
        elif buffer.scope is Scope.LOCAL:
            elements = max(1, (buffer.bytes or 0) // buffer.dtype.storage_bytes)
            self._out.line(f"alignas(16) {kind} {name}[{elements}];")
        else:
            raise CompilerBug(f"codegen: '{buffer.name}' of scope {buffer.scope.value} in the program of a thread")

    @abc.abstractmethod
    def _atomic_call(self, node: Atomic) -> Template:
        """The text of an atomic operation, which takes an address and the operands."""

    def _atomic(self, node: Atomic) -> list[str]:
        exprs, dtype = self._exprs, node.buffer.dtype
        args = [exprs.address(Region(node.buffer, node.indices, ()))]
        if node.value is not None and node.value.dtype.lanes > dtype.lanes:
            args.append(exprs.value(node.value))
        else:
            args += [exprs.value(cast(e, dtype)) for e in (node.compare, node.value) if e is not None]
        template = self._atomic_call(node)
        exprs.need(template.helper)
        text = template.format(*args)
        if node.result is None:
            return [f"{text};"]
        return [f"const {exprs.value_type(dtype)} {self._names.declare(node.result)} = {text};"]

    def _waits(self, stmt: Stmt) -> bool:
        """Whether a statement synchronizes threads, or commits or awaits asynchronous operations."""
        if not isinstance(stmt, CallStmt) or not isinstance(stmt.routine, Instruction):
            return False
        return stmt.routine.effect is not Effect.NONE or stmt.routine.async_unit not in (None, self.brief)

    def _for(self, node: For, also: Sequence[str] = ()) -> None:
        start, stop = int_const(node.start), int_const(node.stop)
        if self._is_rolled(node) or self._pragma(node) == _ROLLED:
            self._rolled(node)
        elif node.kind is not ForKind.UNROLLED or start is None or start < 0 or node.step < 0 or stop is None:
            super()._for(node, also)
        else:
            self._unrolled(node, stop - 1, also)

    def _unrolled(self, node: For, last: int, also: Sequence[str]) -> None:
        """A loop that the compiler of the text unrolls; `last` is the largest value of its variable."""
        self._exprs.unrolled[node.var] = last
        super()._for(node, also)
        del self._exprs.unrolled[node.var]

    def _rolled(self, node: For) -> None:
        """A loop that stays one, with the pointers that go along with it."""
        exprs, also = self._exprs, self._more_pointers(node)
        outside = dict(exprs.pointers)
        for (buffer, offset), increment in pointer_increments(node).items():
            if self._types.offset_bits(buffer) != 32 or self._has_address(buffer, offset):
                continue  # what unrolled loops add might not fit into an `int`
            name = self._names.fresh(f"{buffer.name}_at")
            first = exprs.address(Region(buffer, increment.start, ()))
            self._out.line(f"{pointer_type(buffer, exprs, self._written)} {name} = {first};")
            also.append(f"{name} += {exprs.distance(buffer, increment.steps)}")
            exprs.pointers[buffer, offset] = name, increment.unrolled_steps
        super()._for(node, also)
        exprs.pointers = outside

    def _more_pointers(self, loop: For) -> list[str]:
        """Declares further pointers that go along with a loop; gives their increments."""
        return []

    def _has_address(self, buffer: Buffer, place: tuple[ExprKey, ...]) -> bool:
        """Whether an address is among these."""
        return False

    def _pragma(self, node: For) -> str:
        if node.kind is ForKind.UNROLLED or node.kind is ForKind.VECTORIZED:
            return f"#pragma unroll {node.unroll_factor}" if node.unroll_factor else "#pragma unroll"
        return _ROLLED if self._is_rolled(node) else ""

    def _is_rolled(self, node: For) -> bool:
        """Whether a loop must not be unrolled: copies of a pipelined loop cost more registers than they save."""
        if node.kind is ForKind.UNROLLED or node.kind is ForKind.VECTORIZED or self._is_short(node):
            return False
        return any(self._waits(s) for s in walk(node.body))

    def _is_short(self, node: For) -> bool:
        start, stop = int_const(node.start), int_const(node.stop)
        return start is not None and stop is not None and len(range(start, stop, node.step)) <= self.few_trips


def pointer_type(buffer: Buffer, exprs: ExprPrinter, written: Set[Buffer]) -> str:
    """A pointer to elements of a buffer that exists already."""
    const = "" if buffer.scope.on_chip or buffer.storage in written else "const "
    return f"{const}{exprs.storage(buffer.dtype)}*"

