"""The meaning of wgmma instructions for the simulator, in terms of `isa.simulated.Warp`.

Takes the instructions' operands; the state of a warpgroup is what its four warps have issued. Invariant: the four warps
issue the same instructions in the same order. Operands in shared memory are read for all four at once, when the first
of them waits; no wait ends before all four have issued what it waits for, so any one of them may then release a stage.
The accumulator of a warp changes in that warp's wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np

from tilelang.dtypes import DType
from tilelang.errors import BarrierDivergence, SimulationError
from tilelang.ir.scalar import convert
from tilelang.isa.simulated import AsyncRead, Pointer, Wait, Warp
from tilelang.layout.thread_values import Fragment
from tilelang.records import record
from tilelang.targets.gpu.isa.lanes import uniform
from tilelang.targets.nvidia.isa.async_units import WGMMA
from tilelang.targets.nvidia.isa.atom import ALL_LANES, TF32_MASK
from tilelang.targets.nvidia.isa.matrix_descriptor import CHUNK, Operand, encode

WARPS = 4
_STATE = "wgmma"
_WORD = (1 << 64) - 1
_Matrix = tuple[np.ndarray, np.ndarray | None]  # elements, and which rows are defined as a whole; None: all


@record(frozen=False, eq=False)
class _Issued:
    """One instruction that a warpgroup has issued.

    Attributes:
        call: Its name and operands, which must be the same in all warps.
        first: The warp that issued it first.
        completed: In how many warps it is complete.
        operands: Those in shared memory, once they have been read.
        clock: The joined vector clock of the reads of operands, which waiting warps acquire.
    """

    call: tuple[object, ...]
    first: int
    completed: int = 0
    operands: tuple[_Matrix, ...] | None = None
    clock: np.ndarray | None = None

    def fetch(self, operand: Operand, reading: AsyncRead, wide: type) -> _Matrix:
        """Reads an operand for all warps."""
        contents, defined, clock = reading.fetch()
        self.clock = clock if self.clock is None else np.maximum(self.clock, clock)
        values = _exact(operand.matrix(contents), operand.dtype, wide)
        return values, None if defined is None else np.asarray(operand.defined(defined).all(axis=1))


@record(eq=False)
class _PendingRegisters:
    """Registers of a warp that a pending instruction uses."""

    pointer: Pointer
    count: int
    accumulates: str  # the instruction that accumulates in them; empty if it only reads them

    @cached_property
    def first(self) -> int:
        """The first register, which is the same in all lanes."""
        return int(self.pointer.offset[0])

    def overlaps(self, other: _PendingRegisters) -> bool:
        """Whether both have a register in common."""
        return self.pointer.buffer is other.pointer.buffer and -self.count < self.first - other.first < other.count


@record(frozen=False, eq=False)
class _Warpgroup:
    """The instructions that the warps of a warpgroup have issued.

    Attributes:
        pending: Instructions that are not complete in all warps, by number.
        issued: How many each warp has issued.
        committed: How many groups each warp has committed.
        progress: By the number of a group, the joined vector clock of the warps that have committed it.
        waited: How many groups each warp has waited for.
        registers: The registers of pending instructions, of each warp.
    """

    pending: dict[int, _Issued] = field(default_factory=dict)
    issued: list[int] = field(default_factory=lambda: [0] * WARPS)
    committed: list[int] = field(default_factory=lambda: [0] * WARPS)
    progress: dict[int, np.ndarray] = field(default_factory=dict)
    waited: list[int] = field(default_factory=lambda: [0] * WARPS)
    registers: list[list[_PendingRegisters]] = field(default_factory=lambda: [[] for _ in range(WARPS)])

    def issue(self, warp: Warp, call: tuple[object, ...]) -> tuple[int, _Issued]:
        """A warp issues its next instruction, which must be the same as that of the other warps."""
        rank = warp.index % WARPS
        number = self.issued[rank]
        self.issued[rank] += 1
        issued = self.pending.get(number)
        if issued is None:
            issued = self.pending[number] = _Issued(call, warp.index)
        elif issued.call != call:
            raise BarrierDivergence(
                f"{call[0]}: warp {warp.index} multiplies {_operands(call)}, but warp {issued.first} of its "
                f"warpgroup did {issued.call[0]} on {_operands(issued.call)}",
                hint="let the four warps of a warpgroup execute the same instructions with the same operands",
            )
        return number, issued

    def commit(self, warp: Warp) -> None:
        """A warp commits a group."""
        rank = warp.index % WARPS
        self.committed[rank] += 1
        number, clock = self.committed[rank], warp.release(warp.active, accesses=False)
        self.progress[number] = np.maximum(clock, self.progress[number]) if number in self.progress else clock

    def learn(self, warp: Warp, groups: int) -> None:
        """A warp has waited for groups, which all warps have committed."""
        self.waited[warp.index % WARPS] = groups
        warp.acquire(self.progress[groups], warp.active)
        for number in [number for number in self.progress if number < min(self.waited)]:
            del self.progress[number]

    def has_committed(self, groups: int) -> bool:
        """Whether all warps have committed at least `groups` groups."""
        return min(self.committed) >= groups


def _operands(call: tuple[object, ...]) -> str:
    keep, *descriptors = call[1:]
    return " and ".join(f"{descriptor:#x}" for descriptor in descriptors) + ("" if keep else " overwriting")


def _warpgroup(warp: Warp) -> _Warpgroup:
    groups = warp.state(_STATE, dict)
    group = groups.setdefault(warp.index // WARPS, _Warpgroup())
    assert isinstance(group, _Warpgroup)
    return group


@record(eq=False)
class WgmmaMeaning:
    """The meaning of one wgmma instruction, with A in registers or in shared memory.

    Attributes:
        name: Of the instruction, without that.
        a: A in shared memory; None if registers hold it.
        b: B, which is always in shared memory.
        a_fragment: Which thread of the warpgroup holds which elements of A.
        a_dtype: Of its elements.
        c_fragment: Which thread holds which elements of C.
        c_dtype: Of its elements.
    """

    name: str
    a: Operand | None
    b: Operand
    a_fragment: Fragment
    a_dtype: DType
    c_fragment: Fragment
    c_dtype: DType

    def simulate(self, warp: Warp, c: Pointer, a: Any, b: Any, accumulate: Any, rows: Any = None) -> None:
        """Issues it; only the first `rows` rows of A are used, the others are whatever follows them in memory."""
        warp.converge(ALL_LANES, self.name)
        keep = bool(uniform(warp, accumulate, f"{self.name}, scale-d"))
        group, rank = _warpgroup(warp), warp.index % WARPS
        b_descriptor = uniform(warp, b, f"{self.name}, descriptor of B") & _WORD
        shared: list[tuple[Operand, np.ndarray, np.ndarray | None]] = [(self.b, self.b.chunks(b_descriptor), None)]
        call = [self.name, keep, b_descriptor]
        used_registers = [_PendingRegisters(c, self.c_fragment.values, self.name)]
        if self.a is None:
            used_registers.append(_PendingRegisters(a, self.a_fragment.values, ""))
        else:
            a_descriptor = uniform(warp, a, f"{self.name}, descriptor of A") & _WORD
            used, unused = self.a.of_rows(self.a.chunks(a_descriptor), self._rows(warp, rows))
            shared.append((self.a, used, unused))
            call.append(a_descriptor)
        for registers in used_registers:
            self._check(warp, group.registers[rank], registers)
        number, issued = group.issue(warp, tuple(call))
        group.registers[rank] += used_registers
        agent = _STATE, warp.index // WARPS
        readings = [
            (operand, warp.async_read(chunks, CHUNK, agent=agent, unused=unused)) for operand, chunks, unused in shared
        ]

        def access_registers() -> None:
            for registers in used_registers:
                values, defined = warp.read_raw(registers.pointer, registers.count)
                if registers.accumulates:
                    warp.write(registers.pointer, values, defined=defined)

        def complete() -> None:
            if issued.operands is None:
                issued.operands = tuple(issued.fetch(operand, reading, self._wide) for operand, reading in readings)
            else:
                for _, reading in readings:
                    reading.drop()
            assert issued.clock is not None
            warp.acquire(issued.clock, warp.active)
            self._add(warp, used_registers, issued.operands, keep=keep)
            for registers in used_registers:
                group.registers[rank].remove(registers)
            issued.completed += 1
            if issued.completed == WARPS:
                del group.pending[number]

        warp.defer(WGMMA, complete, access_registers)

    def _rows(self, warp: Warp, rows: Any) -> int:
        whole = self.c_fragment.shape[0]
        return whole if rows is None else min(whole, uniform(warp, rows, f"{self.name}, rows of A"))

    def _check(self, warp: Warp, pending: list[_PendingRegisters], registers: _PendingRegisters) -> None:
        """Refuses registers accessed since the last fence, or that a pending instruction of another shape uses."""
        name = registers.pointer.buffer.name
        if not warp.is_fenced(registers.pointer):
            raise SimulationError(
                f"{self.name}: nothing orders it after what warp {warp.index} did to the registers of '{name}' before",
                hint="execute wgmma.fence between the two, and before the first wgmma",
            )
        for other in pending:
            both = other.accumulates, registers.accumulates
            if both[0] != both[1] and other.overlaps(registers):
                does = "accumulates in" if other.accumulates else "reads"
                raise SimulationError(
                    f"{self.name}: uses registers of '{name}' that another pending wgmma {does}",
                    hint="wait for that one first; only instructions of one shape may accumulate in the same registers",
                )

    def _add(
        self, warp: Warp, registers: list[_PendingRegisters], operands: tuple[_Matrix, ...], *, keep: bool
    ) -> None:
        """Adds the warp's rows of A @ B to its accumulator, or overwrites it."""
        rank, count = warp.index % WARPS, self.c_fragment.shape[0] // WARPS
        (right, right_known), (row, column) = operands[0], self._c_places[rank]
        if self.a is None:
            left, left_known = self._rows_in_registers(warp, registers[1])
        else:
            left, left_known = _part(operands[1], rank * count, count)
        total = (left @ right.T)[row, column]
        known = None if left_known is None else left_known[row]
        if right_known is not None:
            known = right_known[column] if known is None else known & right_known[column]
        accumulator = registers[0]
        if keep:
            old, old_known = warp.read_raw(accumulator.pointer, accumulator.count)
            total, known = total + old.astype(self._wide), old_known if known is None else known & old_known
        if self.a is not None and len(operands[1][0]) < (rank + 1) * count:  # it does not have all of these rows
            beyond = row >= len(operands[1][0]) - rank * count
            # poison: a result that depends on them is visibly wrong
            total = np.where(beyond, _POISON if self.c_dtype.is_int else np.nan, total)
            known = None if known is None else known | beyond
        warp.write(accumulator.pointer, np.asarray(convert(total, self.c_dtype)), defined=known)

    def _rows_in_registers(self, warp: Warp, registers: _PendingRegisters) -> _Matrix:
        """The rows of A that the lanes of a warp hold."""
        values, defined_values = warp.read_raw(registers.pointer, registers.count)
        places = self._a_places[warp.index % WARPS]
        matrix = np.zeros((self.a_fragment.shape[0] // WARPS, self.a_fragment.shape[1]), values.dtype)
        matrix[places] = values
        left = _exact(matrix, self.a_dtype, self._wide)
        if np.count_nonzero(defined_values) == defined_values.size:
            return left, None
        defined = np.zeros(matrix.shape, bool)
        defined[places] = defined_values
        return left, np.asarray(defined.all(axis=1))

    @property
    def _wide(self) -> type:
        """In what products are added up, without rounding those of one instruction."""
        return np.int64 if self.c_dtype.is_int else np.float64

    @cached_property
    def _a_places(self) -> list[tuple[np.ndarray, ...]]:
        return _places_by_warp(self.a_fragment)

    @cached_property
    def _c_places(self) -> list[tuple[np.ndarray, ...]]:
        return _places_by_warp(self.c_fragment)


_POISON = 0x5A5A5A5A


def _places_by_warp(fragment: Fragment) -> list[tuple[np.ndarray, ...]]:
    """Per warp, the row, counted from its first one, and the column of every value of its lanes."""
    count = fragment.shape[0] // WARPS
    parts = [np.split(place, WARPS) for place in fragment.places]
    return [
        (np.ascontiguousarray(rows) - rank * count, np.ascontiguousarray(columns))
        for rank, (rows, columns) in enumerate(zip(*parts, strict=True))
    ]


def _part(operand: _Matrix, first: int, count: int) -> _Matrix:
    """Some rows of a matrix; those that it does not have are undefined."""
    values, known = operand[0][first : first + count], None if operand[1] is None else operand[1][first : first + count]
    missing = count - len(values)
    if missing:
        values = np.pad(values, ((0, missing), (0, 0)))
        known = None if known is None else np.pad(known, (0, missing))
    return np.ascontiguousarray(values), known


def _exact(matrix: np.ndarray, dtype: DType, wide: type) -> np.ndarray:
    """The elements as they are multiplied."""
    if dtype == "tfloat32":
        matrix = (np.ascontiguousarray(matrix).view(np.uint32) & TF32_MASK).view(np.float32)
    exact: np.ndarray = matrix.astype(wide)
    return exact


def fence(warp: Warp) -> None:
    """Orders accesses to registers before wgmma instructions."""
    warp.converge(ALL_LANES, "wgmma.fence")
    warp.fence_registers()


def commit(warp: Warp) -> None:
    """Commits a group."""
    warp.converge(ALL_LANES, "wgmma.commit_group")
    _warpgroup(warp).commit(warp)
    warp.commit(WGMMA)


def wait(warp: Warp, pending: int) -> Iterator[Wait]:
    """Waits until all groups but the newest `pending` are complete; all warps must have issued them."""
    warp.converge(ALL_LANES, "wgmma.wait_group")
    group = _warpgroup(warp)
    needed = group.committed[warp.index % WARPS] - pending
    if not group.has_committed(needed):
        yield Wait("wgmma instructions of the other warps of its warpgroup", lambda: group.has_committed(needed))
    if needed > group.waited[warp.index % WARPS]:
        group.learn(warp, needed)
    warp.wait(WGMMA, pending)


def describe(warp: Warp, matrix: Pointer, leading: Any, stride: Any, code: Any) -> np.ndarray:
    """The descriptor of an operand. Shape (32,), uint64."""
    rest = encode(0, uniform(warp, leading, "matrix descriptor"), uniform(warp, stride, "matrix descriptor"), 0)
    rest |= uniform(warp, code, "matrix descriptor") << 62
    start = warp.shared_address(matrix)
    if (start[warp.active] % CHUNK).any():
        raise SimulationError(
            f"matrix descriptor: '{matrix.buffer.name}' is given from byte {int(start[warp.active][0])} of shared "
            f"memory on, which is no multiple of {CHUNK}"
        )
    described: np.ndarray = (start >> 4 & (1 << 14) - 1).astype(np.uint64) | np.uint64(rest)
    return described
