"""Memory access patterns of a loop nest: along which dimension its accesses are contiguous, and their vector width.

Takes the accesses of a nest to global and shared memory, gives `MemoryPattern`s. Invariant: alignments are proven for
every iteration, from the facts on sizes and offsets and from the alignment of the buffers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import field

from tilelang.analysis.accesses import Access
from tilelang.arith.affine import Sum
from tilelang.arith.domain import Domain
from tilelang.arith.interval import Analysis, analysis_of
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Binary, Expr, Var, const, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import children, walk_expr
from tilelang.records import record
from tilelang.targets.machine import SECTOR_BYTES

VECTOR_BYTES = 16
"""The widest access of a thread. Source: PTX ISA, "ld": vectors of up to 16 bytes, aligned to their size."""


@record(slots=True)
class MemoryPattern:
    """One access of a nest to global or shared memory.

    Attributes:
        buffer: The accessed buffer.
        bytes: Size of an element.
        invariant: The variables of the nest that do not change its address.
        widths: For each variable along which it is contiguous, the elements of the widest access that is aligned at
            multiples of that many iterations.
        runs: For each variable that changes its address only every few iterations, such as `j` in `scales[i, j //
            128]`, how many: consecutive iterations, from a multiple of that many on, access one element.
        sector_strides: For each variable along which consecutive iterations access one sector, the stride in bytes.
    """

    buffer: Buffer
    bytes: int
    invariant: frozenset[Var]
    widths: dict[Var, int]
    runs: dict[Var, int] = field(default_factory=dict)
    sector_strides: dict[Var, int] = field(default_factory=dict)

    @property
    def is_global(self) -> bool:
        """Whether it is an access to global memory."""
        return self.buffer.scope is Scope.GLOBAL

    def cost(self, var: Var, vector: int) -> float:
        """The cost per element if a thread accesses `vector` consecutive elements along a variable: requests and lines.

        A request is an instruction of a warp; a line is 128 bytes that a request accesses.
        """
        if var in self.invariant:
            return 2.0 / vector
        if var in self.runs:
            return 2.0 / min(vector, self.runs[var])
        if self.sector_strides.get(var, 0) > self.bytes:
            return 1.0 + max(1.0, vector * self.sector_strides[var] / 4)
        if var not in self.widths:
            return 0.0  # every lane accesses a different line, for any vector
        width = min(vector, self.widths[var])
        return (1.0 + max(1.0, vector * self.bytes / 4)) / width


def patterns(accesses: Iterable[Access], variables: Sequence[Var], domain: Domain) -> list[MemoryPattern]:
    """The patterns of the accesses to global and shared memory, with respect to the variables of a nest."""
    found = []
    for access in accesses:
        if access.buffer.scope in (Scope.GLOBAL, Scope.SHARED) and access.buffer.rank and access.extent is None:
            found.append(_pattern(access, variables, analysis_of(access.context.domain(domain))))
    return found


def _pattern(access: Access, variables: Sequence[Var], analysis: Analysis) -> MemoryPattern:
    sums = [analysis.sum(index) for index in access.start]
    strides = strides_of(access.buffer)
    size = access.buffer.dtype.storage_bytes
    axes_of = {var: [axis for axis, total in enumerate(sums) if _contains(total, var)] for var in variables}
    invariant = frozenset(var for var in variables if not axes_of[var])
    last = len(sums) - 1
    widths: dict[Var, int] = {}
    sector_strides: dict[Var, int] = {}
    for var in variables:
        if axes_of[var] != [last] or int_const(strides[last]) != 1:
            continue
        step = _coefficient(sums[last], var) * size
        if 0 < step < SECTOR_BYTES:
            sector_strides[var] = step
        rest = None if access.atomic else _without(sums[last], var)
        if rest is not None:
            offsets = [*sums[:last], rest]
            divisor = 0
            for offset, stride in zip(offsets, strides, strict=True):
                divisor = math.gcd(divisor, _divisor(offset, analysis) * _divisor(analysis.sum(stride), analysis))
            widths[var] = _width(divisor, access.buffer, size)
    others = [var for var in variables if var not in invariant and var not in widths]
    runs = {var: run for var in others if (run := _equal_run(access.start, var, analysis)) > 1}
    return MemoryPattern(access.buffer, size, invariant, widths, runs, sector_strides)


def _equal_run(indices: Sequence[Expr], var: Var, analysis: Analysis) -> int:
    """The number of consecutive iterations of a variable with equal subscripts; 0 if all are equal."""
    return math.gcd(*(_equal_run_of(index, var, analysis) for index in indices))


def _equal_run_of(index: Expr, var: Var, analysis: Analysis) -> int:
    if index is var:
        return 1
    if isinstance(index, Binary) and index.op is BinaryOp.FLOORDIV and (divisor := int_const(index.b) or 0) > 0:
        rest = _without(analysis.sum(index.a), var)
        if rest is not None:
            return math.gcd(divisor, _divisor(rest, analysis))
    return math.gcd(*(_equal_run_of(child, var, analysis) for child in children(index)))


def _contains(total: Sum, var: Var) -> bool:
    return any(node is var for term in total.terms for key in term for node in walk_expr(key.expr))


def _coefficient(total: Sum, var: Var) -> int:
    """The coefficient of a variable in a sum that has it once; 0 in other sums."""
    named = [(term, factor) for term, factor in total.terms.items() if _contains(Sum({term: factor}, 0), var)]
    (term, factor), *others = named
    return factor if not others and len(term) == 1 and term[0].expr is var else 0


def _without(total: Sum, var: Var) -> Sum | None:
    """The sum without the variable, if it has it in one linear term; None otherwise."""
    alone = next((t for t in total.terms if len(t) == 1 and t[0].expr is var), None)
    if alone is None or total.terms[alone] != 1:
        return None
    rest = total.plus(Sum({alone: 1}, 0), -1)
    return None if _contains(rest, var) else rest


def strides_of(buffer: Buffer) -> tuple[Expr, ...]:
    """The stride of each dimension, in elements."""
    if buffer.strides is not None:
        return buffer.strides
    strides: list[Expr] = []
    distance: Expr = const(1, buffer.shape[-1].dtype) if buffer.shape else const(1, INT32)
    for extent in reversed(buffer.shape):
        strides.append(distance)
        distance = distance * extent
    return tuple(reversed(strides))


def _divisor(total: Sum, analysis: Analysis) -> int:
    """A number that divides every value of a sum; 0 if it is always 0."""
    divisor = abs(total.constant)
    for term, coefficient in total.terms.items():
        factor = abs(coefficient)
        for key in term:
            step = analysis.stepping(key)
            if step is not None and step[1] == 0:
                factor *= step[0]
        divisor = math.gcd(divisor, factor)
    return divisor


def _width(divisor: int, buffer: Buffer, size: int) -> int:
    """The elements of the widest aligned access at multiples of `divisor` elements."""
    aligned = buffer.storage.alignment_bytes if buffer.scope is Scope.GLOBAL else VECTOR_BYTES
    widest = max(1, min(VECTOR_BYTES, aligned) // size)
    width = 1
    while width * 2 <= widest and divisor % (width * 2) == 0:
        width *= 2
    return width


def best_vector(found: Sequence[MemoryPattern], var: Var, run: int) -> int:
    """The vector width, a power of two dividing `run`, of lowest cost along a variable; the smallest of equals."""
    best, least = 1, math.inf
    width = 1
    while run % width == 0 and width <= VECTOR_BYTES:
        cost = sum(pattern.cost(var, width) for pattern in found)
        if cost < least:
            best, least = width, cost
        width *= 2
    return best


def contiguous_variable(found: Sequence[MemoryPattern], variables: Sequence[Var]) -> Var | None:
    """The variable along which most of the memory traffic is contiguous, the last of equals; None if there is none.

    Accesses with an element per iteration have priority over those shared by iterations, such as indices of rows.
    """
    for shared in (False, True):
        gain = dict.fromkeys(variables, 0)
        for pattern in found:
            for var in pattern.sector_strides if shared or not pattern.invariant else ():
                gain[var] += pattern.bytes * (8 if pattern.is_global else 1)
        best = max(gain.values(), default=0)
        if best:
            return next(var for var in reversed(variables) if gain[var] == best)
    return None
