"""`T.gemm` by the matrix instructions of warps, `mma.sync`.

Takes products of shared or fragment operands into a fragment, gives the program of one thread: for each step along K,
the registers of both operands, then all instructions of the warp. Invariant: the tile is covered by whole instructions;
see `mma_operand` for what fills the padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tilelang.arith.domain import Domain
from tilelang.dtypes import FLOAT32, DType
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Const, Expr, Var, cast, const, int_const
from tilelang.ir.stmt import CallStmt, If
from tilelang.isa.nvidia.atom import MmaAtom, mma
from tilelang.isa.nvidia.mma import choose_atom
from tilelang.layout.constraints import Constraint, InShared, Is, Why
from tilelang.layout.fragment import Fragment
from tilelang.lowering.fragment_order import FragmentOrder
from tilelang.lowering.lowering import Site
from tilelang.lowering.nvidia.mma_operand import FragmentOperand, Operand, Share, SharedOperand
from tilelang.lowering.regions import ZERO
from tilelang.lowering.registers import Emitter
from tilelang.lowering.warp_partition import WarpPartition, partition, placed
from tilelang.ops.describe import matrix_axes
from tilelang.ops.gemm import Gemm, GemmWarpPolicy
from tilelang.target import WARP_SIZE


@dataclass(frozen=True)
class _Plan:
    """How a product is divided: the instruction, the warps, and each operand's share of a warp.

    `left` and `right` are the fragments of A and B, `accumulator` that of C, all as fragments of their buffers.
    """

    atom: MmaAtom
    warps: WarpPartition
    a: Share
    b: Share
    left: Fragment
    right: Fragment
    accumulator: Fragment


class GemmMma:
    """The lowering."""

    name = "gemm.mma"

    def refusal(self, op: Gemm, site: Site) -> str:
        """Why matrix instructions cannot do it; empty if they can."""
        sizes = [int_const(size) for size in op.sizes]
        if None in sizes or 0 in sizes:
            return "its extents are not constants above zero"
        if not op.a.dtype == op.b.dtype == op.operand:
            return f"its operands are {op.a.dtype!s} and {op.b.dtype!s}"
        if choose_atom(site.target, op.operand, op.operand, _sums(op), sizes[2] or 0) is None:
            return f"{site.target.arch} multiplies no {op.operand!s} with sums in {_sums(op)!s} by matrix instructions"
        if op.policy is GemmWarpPolicy.Square and site.threads % WARP_SIZE:
            return f"{site.threads} threads are no whole number of warps"
        for letter, region in zip("ABC", (op.a, op.b, op.c), strict=True):
            scope = region.buffer.scope
            if scope is not Scope.FRAGMENT and (letter == "C" or scope is not Scope.SHARED):
                return f"{letter} is in scope {scope.value}"
            if scope is Scope.FRAGMENT and not _is_whole(region):
                return f"{letter} is a part of a fragment"
        return ""

    def constrain(self, op: Gemm, site: Site) -> Iterable[Constraint]:
        """The fragments of the instruction over the warps; shared operands without bank conflicts."""
        plan = _plan(op, site)
        yield Is(op.c.buffer, plan.accumulator, Why(f"{op.name} accumulates in it by {plan.atom.name}", op.loc))
        for region, share, wanted in ((op.a, plan.a, plan.left), (op.b, plan.b, plan.right)):
            if region.buffer.scope is Scope.FRAGMENT:
                yield Is(region.buffer, wanted, Why(f"{op.name} multiplies it by {plan.atom.name}", op.loc))
                continue
            layout = share.layout()
            if layout is not None:
                why = Why(f"{op.name} loads it by warps without bank conflicts", op.loc)
                yield InShared(region.buffer, layout, why)

    def lower(self, op: Gemm, site: Site, build: Builder) -> None:
        """The program of the executing thread."""
        plan = _plan(op, site)
        thread = site.thread
        if thread is None:
            raise CompilerBug("gemm.mma: lowered before there are threads")
        domain = Domain()
        if isinstance(thread, Var):
            domain = domain.with_range(thread, 0, site.threads - 1)
        emit = Emitter(build, domain)
        lane = emit.bind("lane", thread % WARP_SIZE, WARP_SIZE)
        warp = emit.bind("warp", thread // WARP_SIZE, site.threads // WARP_SIZE)
        rows, columns = plan.warps.rows, plan.warps.columns
        a = _operand(emit, plan.a, plan.left, lane, warp % rows, site)
        b = _operand(emit, plan.b, plan.right, lane, warp // rows % columns, site)
        sums = _Accumulator(emit, op, plan, site)
        sums.begin()

        def step(at: Expr, *, tail: bool = False) -> None:
            a.fetch(at, tail=tail)
            b.fetch(at, tail=tail)
            emit.loop(
                "i",
                plan.warps.row_atoms,
                lambda i: emit.loop(
                    "j", plan.warps.column_atoms, lambda j: _multiply(emit, plan, sums, a, b, i, j, at)
                ),
            )

        steps, left_over = divmod(plan.a.depth, plan.a.step)
        if steps:
            emit.loop("k_step", steps, step)
        if left_over:
            step(const(steps, ZERO.dtype), tail=True)
        sums.end()


def _multiply(
    emit: Emitter, plan: _Plan, sums: _Accumulator, a: Operand, b: Operand, i: Expr, j: Expr, step: Expr
) -> None:
    """One instruction."""
    c_part, a_part, b_part = sums.registers(i, j), a.registers(i, step), b.registers(j, step)
    emit.build.emit(CallStmt(mma(plan.atom), (c_part, a_part, b_part), (c_part, a_part, b_part), (c_part,)))


class _Accumulator:
    """C in registers: in place where its values lie as the instruction wants them, else moved there and back."""

    def __init__(self, emit: Emitter, op: Gemm, plan: _Plan, site: Site) -> None:
        self._emit, self._op, self._plan = emit, op, plan
        self._held = site.registers[op.c.buffer]
        self._order = FragmentOrder(site.fragments[op.c.buffer], plan.accumulator)
        self._axes = matrix_axes(op.c)
        self._per_atom = plan.atom.c.values
        dtype = plan.atom.c_dtype
        direct = op.c.dtype == dtype and self._order.keeps(self._per_atom)
        self._moved = None if direct else emit.registers(f"{op.c.buffer.name}_r", plan.accumulator.values, dtype)

    @property
    def _dtype(self) -> DType:
        return self._plan.atom.c_dtype

    def _place(self, row: Expr | int, column: Expr | int) -> Expr:
        coordinate: list[Expr | int] = [0] * self._op.c.buffer.rank
        coordinate[self._axes[0]], coordinate[self._axes[1]] = row, column
        return self._emit.short(self._order.place(*coordinate))

    def begin(self) -> None:
        """Fetches or clears the sums."""
        clear = self._op.clear_accum
        if clear is None:
            self._fetch()
        elif isinstance(clear, Const):
            self._zero() if clear.value else self._fetch()
        else:
            build = self._emit.build
            with build.block() as cleared:
                self._zero()
            with build.block() as kept:
                self._fetch()
            build.emit(If(clear, as_body(cleared, build.loc), as_body(kept, build.loc) if kept else None))

    def _zero(self) -> None:
        target = self._held if self._moved is None else self._moved
        zero = const(0, self._dtype)
        count = self._plan.accumulator.values
        self._emit.loop("v", count, lambda v: self._emit.store(target, v, zero))

    def _fetch(self) -> None:
        moved = self._moved
        if moved is not None:
            self._each(lambda v, at: self._emit.store(moved, v, cast(self._emit.load(self._held, at), self._dtype)))

    def end(self) -> None:
        """Brings the sums back to where they belong."""
        moved = self._moved
        if moved is not None:
            dtype = self._op.c.dtype
            self._each(lambda v, at: self._emit.store(self._held, at, cast(self._emit.load(moved, v), dtype)))

    def _each(self, move: Callable[[Expr, Expr], None]) -> None:
        wanted = self._plan.accumulator
        axes = self._axes

        def value(v: Expr) -> None:
            coordinate = wanted.coordinates(0, v)
            move(v, self._place(coordinate[axes[0]], coordinate[axes[1]]))

        self._emit.loop("v", wanted.values, value)

    def registers(self, i: Expr, j: Expr) -> Region:
        """The sums of one instruction."""
        height, width, _ = self._plan.atom.shape
        if self._moved is None:
            return self._emit.part(self._held, self._place(i * height, j * width), self._per_atom)
        index = i * self._plan.warps.column_atoms + j
        return self._emit.part(self._moved, index * self._per_atom, self._per_atom)


def _operand(emit: Emitter, share: Share, wanted: Fragment, lane: Expr, position: Expr, site: Site) -> Operand:
    """An operand by where it lies; `position` is the warp's among those with rows of their own."""
    buffer = share.region.buffer
    origin = emit.short(position * (share.atoms * share.atom.shape[0]))
    if buffer.scope is Scope.FRAGMENT:
        order = FragmentOrder(site.fragments[buffer], wanted)
        return FragmentOperand(emit, share, lane, origin, order, site.registers[buffer])
    return SharedOperand(emit, share, lane, origin, site.shared_layouts.get(buffer))


def _plan(op: Gemm, site: Site) -> _Plan:
    m, n, k = (int_const(size) or 0 for size in op.sizes)
    atom = choose_atom(site.target, op.operand, op.operand, _sums(op), k)
    if atom is None:
        raise CompilerBug("gemm.mma: chosen for a product that it refuses")
    warps = partition(m, n, atom, site.threads, op.policy)
    (a0, a1), (b0, b1), c_axes = (matrix_axes(region) for region in (op.a, op.b, op.c))
    a_axes = (a1, a0) if op.transpose_a else (a0, a1)  # (m, k)
    b_axes = (b0, b1) if op.transpose_b else (b1, b0)  # (n, k)
    height, width, _ = atom.shape
    row_cover, column_cover = warps.rows * warps.row_atoms * height, warps.columns * warps.column_atoms * width
    return _Plan(
        atom=atom,
        warps=warps,
        a=Share(op.a, *a_axes, m, k, atom.a, warps.row_atoms, row_cover),
        b=Share(op.b, *b_axes, n, k, atom.b, warps.column_atoms, column_cover),
        left=_of_buffer(warps.left(atom, m, k), a_axes, op.a.buffer),
        right=_of_buffer(warps.right(atom, n, k), b_axes, op.b.buffer),
        accumulator=_of_buffer(warps.accumulator(atom, m, n), c_axes, op.c.buffer),
    )


def _of_buffer(tile: Fragment, axes: tuple[int, ...], buffer: Buffer) -> Fragment:
    row, column = axes
    return placed(tile, (row, column), buffer.static_shape or ())


def _sums(op: Gemm) -> DType:
    """The dtype in which instructions accumulate: that of C, but there is none that keeps bfloat16 sums."""
    return FLOAT32 if op.c.dtype == "bfloat16" else op.c.dtype


def _is_whole(region: Region) -> bool:
    """Whether a region is all of its buffer."""
    starts = all(int_const(start) == 0 for start in region.start)
    return starts and region.static_extent == region.buffer.static_shape


LOWERING = GemmMma()
