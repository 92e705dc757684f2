"""`T.cumsum` and `T.cummax` by threads: a warp per line where lines lie along memory, else a thread per line.

Takes scans of tiles that all threads can reach, emits what the executing thread does. Invariant: the element that a
thread writes is the one it has read before, so that a scan may be in place; lines are independent of each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from tilelang.dtypes import INT32, SCALARS
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Expr, Load, Var, as_expr, binary, cast, const, int_const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, Bind, CallStmt, For, ForKind, If, Store
from tilelang.isa.nvidia.warp import shuffle
from tilelang.layout.constraints import Constraint
from tilelang.lowering.lowering import Site
from tilelang.lowering.regions import ZERO, axes, indices, load, matching_axes
from tilelang.ops.scan import Scan, ScanOp
from tilelang.target import WARP_SIZE

_STEPS = (1, 2, 4, 8, 16)
_MASK = const((1 << WARP_SIZE) - 1, SCALARS["uint32"])


class SimtScan:
    """Scans by shuffles within warps."""

    name = "scan.simt"

    def refusal(self, op: Scan, site: Site) -> str:
        """Nothing stands in its way: operands in registers are brought to shared memory beforehand."""
        del op, site
        return ""

    def constrain(self, op: Scan, site: Site) -> Iterable[Constraint]:
        """Nothing: its operands have no owners."""
        del op, site
        return ()

    def lower(self, op: Scan, site: Site, build: Builder) -> None:
        """Emits the lines that the executing thread has a part in."""
        if site.thread is None or any(r.buffer.scope is Scope.FRAGMENT for r in (op.src, op.dst)):
            raise CompilerBug(f"{op.name}: its operands must be in memory that all threads reach")
        _Scan(op, site, build).lower()


class _Scan:
    def __init__(self, op: Scan, site: Site, build: Builder) -> None:
        assert site.thread is not None
        self._op, self._build = op, build
        self._thread, self._threads = site.thread, site.threads
        self._dtype = op.accumulator
        limits = self._dtype.limits if not self._dtype.is_float else (-math.inf, math.inf)
        self._first = const(0 if op.op is ScanOp.SUM else limits[0], self._dtype)
        self._across = [axis for axis in axes(op.src) if axis != op.dim]
        self._across_dst = matching_axes(op.src, op.dst, op.dim)
        self._extent = op.src.extent[op.dim]

    def lower(self) -> None:
        """Neighbors along a line are neighbors in memory: lanes work side by side; else lines are neighbors."""
        along_memory = not any(axis > self._op.dim for axis in self._across)
        if along_memory and self._threads >= WARP_SIZE:
            self._by_warps()
        else:
            self._by_threads()

    def _combine(self, a: Expr, b: Expr) -> Expr:
        return binary(BinaryOp.ADD if self._op.op is ScanOp.SUM else BinaryOp.MAX, a, b)

    # -- lines ----------------------------------------------------------------------------------------------------
    def _lines(self, worker: Expr, workers: int, body: Callable[[tuple[Expr, ...]], None]) -> None:
        """Lines in turn: every worker takes each `workers`-th."""
        extents = [self._op.src.extent[axis] for axis in self._across]
        total: Expr = as_expr(1)
        for extent in extents:
            total = total * extent
        turn = Var("turn", INT32, index=True)
        line = worker + turn * workers
        with self._build.block() as statements:
            body(self._coordinates(line, extents))
        known = int_const(total)
        within = as_body(statements, self._build.loc)
        if known is None or known % workers:
            within = If(line < total, within)
        turns = (total + (workers - 1)) // workers
        self._build.emit(For(turn, ZERO, turns, 1, ForKind.SERIAL, within))

    @staticmethod
    def _coordinates(line: Expr, extents: Sequence[Expr]) -> tuple[Expr, ...]:
        found: list[Expr] = []
        for extent in reversed(extents[1:]):
            found.append(line % extent)
            line = line // extent
        return (*([line] if extents else []), *reversed(found))

    def _place(self, k: Expr) -> Expr:
        return self._extent - 1 - k if self._op.reverse else k

    def _read(self, line: tuple[Expr, ...], k: Expr) -> Expr:
        return cast(load(self._op.src, (*line, self._place(k)), (*self._across, self._op.dim)), self._dtype)

    def _write(self, line: tuple[Expr, ...], k: Expr, value: Expr) -> None:
        dst = self._op.dst
        self._build.emit(
            Store(dst.buffer, indices(dst, (*line, self._place(k)), self._across_dst), cast(value, dst.dtype))
        )

    def _scalar(self, name: str, value: Expr) -> Buffer:
        buffer = Buffer(name, (), self._dtype, Scope.VAR)
        self._build.emit(Alloc(buffer, value))
        return buffer

    def _value(self, buffer: Buffer) -> Load:
        return Load(buffer, (), self._dtype)

    # -- a thread per line ----------------------------------------------------------------------------------------
    def _by_threads(self) -> None:
        def line(at: tuple[Expr, ...]) -> None:
            running = self._scalar("running", self._first)
            k = Var("k", INT32, index=True)
            with self._build.block() as statements:
                self._build.emit(Store(running, (), self._combine(self._value(running), self._read(at, k))))
                self._write(at, k, self._value(running))
            self._build.emit(For(k, ZERO, self._extent, 1, ForKind.SERIAL, as_body(statements, self._build.loc)))

        self._lines(self._thread, self._threads, line)

    # -- a warp per line ------------------------------------------------------------------------------------------
    def _by_warps(self) -> None:
        warps = self._threads // WARP_SIZE
        lane = Var("lane", INT32, index=True)

        def line(at: tuple[Expr, ...]) -> None:
            carry = self._scalar("carry", self._first)
            piece = Var("piece", INT32, index=True)
            with self._build.block() as statements:
                self._piece(at, carry, lane, piece * WARP_SIZE + lane)
            pieces = (self._extent + (WARP_SIZE - 1)) // WARP_SIZE
            self._build.emit(For(piece, ZERO, pieces, 1, ForKind.SERIAL, as_body(statements, self._build.loc)))

        with self._build.block() as statements:
            self._lines(self._thread // WARP_SIZE, warps, line)
        body = as_body(statements, self._build.loc)
        if self._threads % WARP_SIZE:  # a warp with missing lanes takes no part
            body = If(self._thread < warps * WARP_SIZE, body)
        self._build.emit(Bind(lane, self._thread % WARP_SIZE))
        self._build.emit(body)

    def _piece(self, line: tuple[Expr, ...], carry: Buffer, lane: Expr, k: Expr) -> None:
        """As many neighbors as a warp has lanes: folded with all before them in log steps."""
        known = int_const(self._extent)
        whole = known is not None and known % WARP_SIZE == 0
        here = self._read(line, k)
        value = self._scalar("value", here if whole else select(k < self._extent, here, self._first))
        for step in _STEPS:
            below = self._shuffled("up", value, step)
            folded = select(lane >= step, self._combine(below, self._value(value)), self._value(value))
            self._build.emit(Store(value, (), folded))
        self._build.emit(Store(value, (), self._combine(self._value(carry), self._value(value))))
        with self._build.block() as statements:
            self._write(line, k, self._value(value))
        write = as_body(statements, self._build.loc)
        self._build.emit(write if whole else If(k < self._extent, write))
        self._build.emit(Store(carry, (), self._shuffled("idx", value, WARP_SIZE - 1)))

    def _shuffled(self, mode: str, value: Buffer, operand: int) -> Var:
        result = Var("other", self._dtype)
        args = (_MASK, self._value(value), const(operand, INT32), const(WARP_SIZE, INT32))
        self._build.emit(CallStmt(shuffle(mode, self._dtype), args, result=result))
        return result
