"""`T.gemm` by warp-level matrix instructions with register operands.

Takes gemms of shared or fragment operands into a fragment, gives the program of one thread: for each step along K, the
registers of both operands, then all instructions of the warp; if registers suffice, the operands of the next step are
prefetched, or loaded in a `row_order` that needs fewer, and if they do not even hold the sums, these are computed in
parts, one after another. Invariant: the tile
is padded to whole instructions; see `mma_operand` for the padding.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from tilelang.dtypes import FLOAT32, DType
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Expr, const, int_const
from tilelang.ir.plan import Plan
from tilelang.ir.stmt import CallStmt
from tilelang.isa.instruction import Instruction
from tilelang.layout.constraints import Constraint, FixedLayout, Reason, SharedLayout
from tilelang.layout.thread_values import Fragment
from tilelang.lowering.accumulator import Accumulator
from tilelang.lowering.lowering import LoweringContext, Refusal
from tilelang.lowering.regions import ZERO, is_whole
from tilelang.lowering.registers import Emitter, emitter
from tilelang.lowering.value_permutation import ValuePermutation
from tilelang.ops.describe import matrix_axes
from tilelang.ops.gemm import Gemm
from tilelang.records import record
from tilelang.targets.gpu.lowerings.inner_steps import inner_steps
from tilelang.targets.gpu.lowerings.mma_operand import ElementOperand, FragmentOperand, Operand, Share
from tilelang.targets.gpu.lowerings.row_order import HeldRows, RowOrder
from tilelang.targets.gpu.lowerings.warp_partition import WarpAtom, WarpPartition, held, partition, placed

_REGISTER_BYTES = 4


class RegisterAtom(WarpAtom, Protocol):
    """A matrix instruction."""

    @property
    def name(self) -> str:
        """Name in messages."""

    @property
    def c_dtype(self) -> DType:
        """The accumulator dtype."""


@record
class MmaPlan(Plan):
    """The partition of a gemm.

    Attributes:
        atom: The instruction.
        warps: The partition of the tile over warps.
        note: What `kernel.explain()` says of the instruction.
        by_columns: Tiles of which each thread stores columns of several rows.
    """

    atom: RegisterAtom
    warps: WarpPartition
    note: str = ""
    by_columns: frozenset[Buffer] = frozenset()

    def __str__(self) -> str:
        return f"{self.atom.name} of {self.warps.rows} x {self.warps.columns} warps"


@record
class _Held:
    """How lanes hold an operand: the fragment of one instruction, and that of the buffer."""

    part: Fragment
    whole: Fragment


@record
class _Division:
    """A plan applied to the operands of an operator.

    `a` and `b` are the operands of a warp, `lefts` the ways to hold A, the first one first, `right` that to hold B,
    `accumulator` the fragment of the buffer of C.
    """

    atom: RegisterAtom
    warps: WarpPartition
    a: Share
    b: Share
    lefts: tuple[_Held, ...]
    right: _Held
    accumulator: Fragment

    @property
    def steps(self) -> int:
        """Steps along K; the last one may be partial."""
        return -(-self.a.depth // self.a.step)

    @property
    def fetched(self) -> list[Share]:
        """The operands in shared memory, which are loaded to registers."""
        return [share for share in (self.a, self.b) if share.region.buffer.scope is Scope.SHARED]


@record
class _Part:
    """Instructions of a warp, `rows` x `columns` of them, that are executed for all of K before others."""

    first_row: int
    rows: int
    first_column: int
    columns: int


@record
class _Loading:
    """How the operands of steps are loaded.

    Attributes:
        sets: Sets of registers.
        held: The rows of A in registers, if one set serves all steps in a `row_order`.
        barrier: What keeps the vendor's compiler from moving any instruction, where something does.
    """

    sets: int
    held: HeldRows | None = None
    barrier: Instruction | None = None


class RegisterGemm(abc.ABC):
    """The lowering; vendors state their instructions.

    Attributes:
        prefetch_barrier: What keeps the vendor's compiler from moving prefetches after the instructions that they
            overlap; None if it does not.
    """

    name = "gemm.mma"
    prefetch_barrier: Instruction | None = None

    @abc.abstractmethod
    def max_registers(self, context: LoweringContext) -> int:
        """Maximal number of 32-bit registers per thread for fragments and operands with prefetching."""

    @abc.abstractmethod
    def choose(self, op: Gemm, context: LoweringContext) -> RegisterAtom | None:
        """The instruction for a gemm of constant extents, which accumulates in `sums(op)`; None without one."""

    def sums(self, op: Gemm) -> DType:
        """The accumulator dtype of instructions: that of C, or float32 for bfloat16."""
        return FLOAT32 if op.c.dtype == "bfloat16" else op.c.dtype

    def operand_classes(self, context: LoweringContext) -> tuple[type[Share], type[ElementOperand]]:
        """The classes of a warp's part of an operand, and of operands in shared memory."""
        return Share, ElementOperand

    def lefts(self, atom: Any) -> tuple[Fragment, ...]:
        """The fragments of A of one instruction as lanes may hold it, the preferred one first."""
        return (atom.a,)

    def exchanged_operand(self, emit: Emitter, share: Share, own: FragmentOperand, sets: int) -> Operand:
        """Operand A made of that which lanes hold in another fragment than the instruction takes."""
        raise CompilerBug(f"{self.name}: lanes hold {share.region.buffer.name} in another fragment")

    def order_barrier(self, context: LoweringContext) -> Instruction | None:
        """What keeps the vendor's compiler from moving any instruction of gemms of two shared operands; None: nothing.

        Without it, stores of the next tiles, with waits for their loads, might move before the last multiplications.
        """
        del context
        return None

    def held_rows(
        self, atom: Any, warps: WarpPartition, sets: int, registers: int, context: LoweringContext
    ) -> HeldRows | None:
        """How one set of registers serves all steps, if both operands are in shared memory; None for `sets` of them.

        With one row of A, a lane needs so many 32-bit `registers` for operands and for the fragments of the launch.
        """
        del atom, warps, sets, registers, context
        return None

    def note(self, op: Gemm, atom: Any, context: LoweringContext) -> str:
        """The note of `kernel.explain()` on the instruction of a gemm."""
        del op, atom, context
        return ""

    def instead(self, op: Gemm) -> str:
        """The hint for a gemm without an instruction, instead of single threads; empty if these are expected."""
        return ""

    @abc.abstractmethod
    def instruction(self, atom: Any) -> Instruction:
        """The instruction; its operands are the registers of C, A and B."""

    def accepts(self, op: Gemm, context: LoweringContext) -> MmaPlan | Refusal:
        """The partition, or the reason of refusal.

        Raises:
            ResourceError: They could, but no policy can split the threads among warps.
        """
        m, n, k = (int_const(size) or 0 for size in op.sizes)
        if not (m and n and k):
            return Refusal("its extents are not constants above zero")
        if (op.a.dtype, op.b.dtype) != op.operands:
            return Refusal(f"its operands are {op.a.dtype!s} and {op.b.dtype!s}")
        atom = self.choose(op, context)
        if atom is None:
            what = f"{op.multiplied} with sums in {self.sums(op)!s}"
            reason = f"{context.target.arch} multiplies no {what} by matrix instructions"
            return Refusal(reason, is_noted=True, hint=self.instead(op))
        for letter, region in zip("ABC", (op.a, op.b, op.c), strict=True):
            scope = region.buffer.scope
            if scope is not Scope.FRAGMENT and (letter == "C" or scope is not Scope.SHARED):
                return Refusal(f"{letter} is in scope {scope.value}")
            if scope is Scope.FRAGMENT and not is_whole(region):
                return Refusal(f"{letter} is a part of a fragment")
        warps = partition(m, n, atom, context.threads, op.policy, context.target.machine.warp_size)
        return MmaPlan(atom, warps, self.note(op, atom, context))

    def constrain(self, op: Gemm, plan: MmaPlan, context: LoweringContext) -> Iterable[Constraint]:
        """The fragments of the instruction partitioned over warps; shared operands without bank conflicts."""
        division = self._divided(op, plan, context)
        accumulates = Reason(f"{op.name} accumulates in it by {plan.atom.name}", op.loc)
        multiplies = Reason(f"{op.name} multiplies it by {plan.atom.name}", op.loc)
        yield FixedLayout(op.c.buffer, held(division.accumulator), accumulates)
        for region, share, ways in ((op.a, division.a, division.lefts), (op.b, division.b, (division.right,))):
            if region.buffer.scope is Scope.FRAGMENT:
                preferred, *others = (held(way.whole) for way in ways)
                yield FixedLayout(region.buffer, preferred, multiplies, *others)
                continue
            layout = share.layout(context.target.machine)
            if layout is not None:
                reason = Reason(f"{op.name} loads it by warps without bank conflicts", op.loc)
                yield SharedLayout(region.buffer, layout, reason)
        for step in (op.first, op.last):
            if step is not None:
                yield from self.constrain(_of_step(op, step), plan, context)

    def lower(self, op: Gemm, plan: MmaPlan, context: LoweringContext, build: Builder) -> None:
        """The program of the executing thread."""
        division = self._divided(op, plan, context)
        emit, thread = emitter(build, context, self.name)
        warp_size = context.target.machine.warp_size
        lane = emit.bind("lane", thread % warp_size, warp_size)
        warp = emit.bind("warp", thread // warp_size, context.threads // warp_size)
        loading = self._loading(division, context)
        if op.first is not None or op.last is not None:
            loading = _Loading(min(2, division.steps - bool(op.first) - bool(op.last)))
        parts = [
            (part, *self._operands(emit, division, part, lane, warp, context, loading.sets))
            for part in self._parts(division, context)
        ]
        sums = Accumulator(emit, op, context, division.accumulator, division.atom.c_dtype, run=division.atom.c.values)
        sums.load()
        for number, (part, a, b) in enumerate(parts):
            if number and self.prefetch_barrier is not None:
                build.emit(CallStmt(self.prefetch_barrier, ()))  # else registers would have to hold several parts
            if op.first is None and op.last is None:
                self._lower_part(emit, division, part, sums, a, b, loading)
                continue
            first = None
            if op.first is not None:
                of_step = self._divided(_of_step(op, op.first), plan, context)
                first = self._operands(emit, of_step, part, lane, warp, context, sets=1)
            last = [context.registers[region.buffer] for region in op.last or ()]
            multiply_one = functools.partial(self._multiply, emit, division, part, sums)
            multiply = functools.partial(_for_each, emit, part, multiply_one)
            inner_steps(emit, division.steps, (a, b), first, last, multiply)
        sums.store()

    def _operands(
        self,
        emit: Emitter,
        division: _Division,
        part: _Part,
        lane: Expr,
        warp: Expr,
        context: LoweringContext,
        sets: int,
    ) -> tuple[Operand, Operand]:
        """The operands of a part."""
        rows, columns = division.warps.rows, division.warps.columns
        height, width, _ = division.atom.shape
        row = warp % rows * (division.a.atoms * height) + part.first_row * height
        column = warp // rows % columns * (division.b.atoms * width) + part.first_column * width
        a = dataclasses.replace(division.a, atoms=part.rows)
        b = dataclasses.replace(division.b, atoms=part.columns)
        return (
            self._operand(emit, a, division.lefts, lane, emit.short(row), context, sets),
            self._operand(emit, b, (division.right,), lane, emit.short(column), context, sets),
        )

    def _lower_part(
        self,
        emit: Emitter,
        division: _Division,
        part: _Part,
        sums: Accumulator,
        a: Operand,
        b: Operand,
        loading: _Loading,
    ) -> None:
        """All steps along K of a part of the instructions."""
        build = emit.build
        multiply_one = functools.partial(self._multiply, emit, division, part, sums, a, b)
        multiply = functools.partial(_for_each, emit, part, multiply_one)

        def fetch(step: Expr, *, tail: bool = False) -> None:
            a.fetch(step, tail=tail)
            b.fetch(step, tail=tail)

        def in_turn(step: Expr, *, tail: bool = False) -> None:
            fetch(step, tail=tail)
            multiply(step)

        def ahead(step: Expr, *, tail: bool = False) -> None:
            fetch(step, tail=tail)
            if self.prefetch_barrier is not None:
                build.emit(CallStmt(self.prefetch_barrier, ()))
            multiply(emit.short(step - 1))

        whole, left_over = divmod(division.a.depth, division.a.step)
        last = const(division.steps - 1, ZERO.dtype)
        held, barrier = loading.held, loading.barrier
        if held is not None and barrier is not None and isinstance(a, ElementOperand) and isinstance(b, ElementOperand):
            counts = part.rows, part.columns
            RowOrder(emit, a, b, counts, functools.partial(multiply_one, ZERO), barrier).steps(whole, held)
        elif loading.sets == 1:
            emit.loop("k_step", whole, in_turn)
            if left_over:
                in_turn(last, tail=True)
        else:
            fetch(ZERO, tail=not whole)
            emit.loop("k_step", whole, ahead, start=1)
            if left_over:
                ahead(last, tail=True)
            if barrier is not None:
                build.emit(CallStmt(barrier, ()))
            multiply(last)

    def _multiply(
        self,
        emit: Emitter,
        division: _Division,
        part: _Part,
        sums: Accumulator,
        a: Operand,
        b: Operand,
        step: Expr,
        i: Expr,
        j: Expr,
    ) -> None:
        """One instruction."""
        height, width, _ = division.atom.shape
        c_part = sums.registers((i + part.first_row) * height, (j + part.first_column) * width)
        a_part, b_part = a.registers(i, step), b.registers(j, step)
        parts = (c_part, a_part, b_part)
        emit.build.emit(CallStmt(self.instruction(division.atom), parts, parts, (c_part,)))

    def _loading(self, division: _Division, context: LoweringContext) -> _Loading:
        sets = self._sets(division, context)
        barrier = self.order_barrier(context) if len(division.fetched) == len("AB") else None
        if barrier is None or division.steps == 1 or division.a.depth % division.a.step:
            return _Loading(sets, barrier=barrier)
        registers = self._bytes_by_rows(division, context) // _REGISTER_BYTES
        held = self.held_rows(division.atom, division.warps, sets, registers, context)
        return _Loading(sets if held is None else 1, held, barrier)

    def _bytes_by_rows(self, division: _Division, context: LoweringContext) -> int:
        """One row of A, all columns of B, and all fragments of the launch, of sums in parts those of a part."""
        atom, part = division.atom, next(self._parts(division, context))
        size, sums = division.a.dtype.storage_bytes, atom.c.values * atom.c_dtype.storage_bytes
        all_sums = division.accumulator.values * atom.c_dtype.storage_bytes
        operands = (atom.a.values + part.columns * atom.b.values) * size
        fragments = sum(buffer.bytes or 0 for buffer in context.registers.values())
        return fragments - all_sums + part.rows * part.columns * sums + operands

    def _sets(self, division: _Division, context: LoweringContext) -> int:
        """Sets of registers for operands: two for prefetching, if registers suffice.

        All fragments of the launch count, since any may be live; the rest is for addresses.
        """
        if division.steps == 1:
            return 1
        operands = sum(map(_bytes, division.fetched))
        fragments = sum(buffer.bytes or 0 for buffer in context.registers.values())
        return 2 if operands and fragments + 2 * operands <= self.max_registers(context) * _REGISTER_BYTES else 1

    def _parts(self, division: _Division, context: LoweringContext) -> Iterator[_Part]:
        """The instructions of a warp: at once, or in parts if registers cannot hold all sums.

        Only operands in shared memory are loaded anew for each part; the longer side is parted, since the operand of
        the other side is loaded for each part. Without a barrier, the vendor's compiler would mix the parts.
        """
        parted = max(division.fetched, key=lambda share: share.tile.shape[0], default=division.a)
        count = 1
        most = self.max_registers(context) * _REGISTER_BYTES
        sums = division.accumulator.values * division.atom.c_dtype.storage_bytes
        if self.prefetch_barrier is not None and sums > most and division.fetched:
            own = _bytes(parted)
            others = sum(map(_bytes, division.fetched)) - own
            counts = (n for n in range(1, parted.atoms) if parted.atoms % n == 0)
            count = next((n for n in counts if (sums + own) // n + others <= most), parted.atoms)
        size = parted.atoms // count
        for first in range(0, parted.atoms, size):
            if parted is division.a:
                yield _Part(first, size, 0, division.b.atoms)
            else:
                yield _Part(0, division.a.atoms, first, size)

    def _operand(
        self,
        emit: Emitter,
        share: Share,
        ways: tuple[_Held, ...],
        lane: Expr,
        origin: Expr,
        context: LoweringContext,
        sets: int,
    ) -> Operand:
        """An operand by its scope; `origin` is its first row."""
        buffer = share.region.buffer
        if buffer.scope is Scope.FRAGMENT:
            actual, registers = context.fragments[buffer], context.registers[buffer]
            way = next((way for way in ways if actual.same_owners(held(way.whole))), ways[-1])
            own, order = dataclasses.replace(share, atom=way.part), ValuePermutation(actual, way.whole)
            operand = FragmentOperand(emit, own, lane, origin, order, registers, sets)
            return operand if way.part == share.atom else self.exchanged_operand(emit, share, operand, sets)
        _, in_shared = self.operand_classes(context)
        return in_shared(emit, share, lane, origin, context.shared_layouts.get(buffer), sets)

    def _divided(self, op: Gemm, plan: MmaPlan, context: LoweringContext) -> _Division:
        share, _ = self.operand_classes(context)
        m, n, k = (int_const(size) or 0 for size in op.sizes)
        atom, warps = plan.atom, plan.warps
        (a0, a1), (b0, b1) = (matrix_axes(region) for region in (op.a, op.b))
        a_axes = (a1, a0) if op.transpose_a else (a0, a1)  # (m, k)
        b_axes = (b0, b1) if op.transpose_b else (b1, b0)  # (n, k)
        height, width, _ = atom.shape
        row_cover, column_cover = warps.rows * warps.row_atoms * height, warps.columns * warps.column_atoms * width
        return _Division(
            atom=atom,
            warps=warps,
            a=share(op.a, *a_axes, m, k, atom.a, warps.row_atoms, row_cover, op.a.buffer in plan.by_columns),
            b=share(op.b, *b_axes, n, k, atom.b, warps.column_atoms, column_cover, op.b.buffer in plan.by_columns),
            lefts=tuple(_Held(a, _of_buffer(warps.left(a, m, k), a_axes, op.a.buffer)) for a in self.lefts(atom)),
            right=_Held(atom.b, _of_buffer(warps.right(atom, n, k), b_axes, op.b.buffer)),
            accumulator=_of_buffer(warps.accumulator(atom, m, n), op.axes_of_c, op.c.buffer),
        )


def _of_step(op: Gemm, operands: tuple[Region, Region]) -> Gemm:
    """The gemm of one step along K, whose operands are in fragments."""
    a, b = operands
    return dataclasses.replace(op, a=a, b=b, first=None, last=None)


def _for_each(emit: Emitter, part: _Part, multiply: Callable[..., None], *step: Operand | Expr) -> None:
    """All instructions of a step: `multiply` takes what tells the step, then the row and the column of one."""
    emit.loop("i", part.rows, lambda i: emit.loop("j", part.columns, lambda j: multiply(*step, i, j)))


def _bytes(share: Share) -> int:
    """The registers of a step of an operand in bytes."""
    return share.tile.values * share.dtype.storage_bytes


def _of_buffer(tile: Fragment, axes: tuple[int, ...], buffer: Buffer) -> Fragment:
    row, column = axes
    return placed(tile, (row, column), buffer.static_shape or ())
