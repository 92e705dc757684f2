"""Operands of `mma.sync` in shared memory, loaded by `ldmatrix` where possible.

Takes an operand of a gemm and the warp's part of it; gives an object that loads the registers of one step along K. See
`targets.gpu.lowerings.mma_operand` for the loads that all machines have.
"""

from __future__ import annotations

import numpy as np

from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr, const
from tilelang.ir.stmt import CallStmt
from tilelang.layout.layout import Layout
from tilelang.lowering.operand_layout import WarpAccess, is_contiguous_in_runs
from tilelang.records import record
from tilelang.targets.gpu.lowerings.mma_operand import ElementOperand, Share, rounded
from tilelang.targets.nvidia.isa.atom import per_register
from tilelang.targets.nvidia.isa.ldmatrix import ROW_BYTES, ROWS, ldmatrix
from tilelang.targets.nvidia.machines import WARP_SIZE

_LANES = np.arange(WARP_SIZE)


@record
class MatrixShare(Share):
    """A warp's part of an operand that `ldmatrix` may load."""

    @property
    def suits_matrix_loads(self) -> bool:
        """Whether `ldmatrix` gives each lane the elements that the mma takes.

        With `.trans` it distributes units of 16 bits; without, each register holds 4 contiguous bytes of memory.
        """
        if self._last not in (self.row_axis, self.k_axis) or self.dtype.bits not in (8, 16, 32):
            return False
        if self.transposes:
            return self.dtype.bits == 16 and (self.cover == self.rows or self.rows % ROWS == 0)
        return True

    def accesses(self, height: int, length: int) -> list[WarpAccess]:
        """The accesses of a warp to a tile of `height` rows of `length` elements."""
        if self.suits_matrix_loads and length * self.dtype.bits % (8 * ROW_BYTES) == 0:
            return [WarpAccess(_LANES % ROWS % height, 0 * _LANES, ROW_BYTES)]
        return super().accesses(height, length)


class SharedOperand(ElementOperand):
    """An operand in shared memory, loaded by `ldmatrix` where its layout allows, else element by element."""

    _share: MatrixShare

    def _begin(self, layout: Layout | None) -> tuple[Expr, Expr] | None:
        """Computes before the first step the addresses of `ldmatrix`, or of the lane's first element."""
        share = self._share
        chunk = ROW_BYTES // share.dtype.numpy.itemsize
        self._by_matrix = share.suits_matrix_loads and is_contiguous_in_runs(share.region, layout, chunk)
        self._loads = self._matrix_loads() if self._by_matrix else []
        return None if self._by_matrix else self._lane_start()

    def _matrix_loads(self) -> list[tuple[int, int, int, Expr, Expr]]:
        """The `ldmatrix` of a step: matrices of each, first register, repetitions; the lane's row and k."""
        per = per_register(self._share.dtype)
        total = self._count // per
        loads, first = [], 0
        for matrices in (4, 2, 1):
            times = (total - first) // matrices
            if times:
                matrix, line = self._lane // ROWS % matrices, self._lane % ROWS
                row, k = self._share.tile.coordinates(0, matrix * per)
                if self._share.transposes:
                    k = k + line
                else:
                    row = row + line
                name = f"{self._name}_x{matrices}"
                loads.append((matrices, first, times, *self._bind(name, row, k)))
                first += times * matrices
        return loads

    def fetch(self, step: Expr, *, tail: bool) -> None:
        """Loads the registers of all instructions of a step."""
        if not self._by_matrix or tail:
            self._load_elements(step, tail=tail)
            return
        for load in self._loads:
            self._load_matrices(step, *load)
        emit, registers = self._emit, self._registers
        if self._share.dtype == "tfloat32" and not self._is_exact:
            first = self._first(step)
            emit.loop(
                "v", self._count, lambda v: emit.store(registers, first + v, rounded(emit.load(registers, first + v)))
            )

    def _load_matrices(self, step: Expr, matrices: int, first: int, times: int, row: Expr, k: Expr) -> None:
        share, emit = self._share, self._emit
        per = per_register(share.dtype)
        instruction = ldmatrix(matrices, share.transposes)
        last = share.rows - (ROWS if share.transposes else 1)

        def load(group: Expr) -> None:
            start = (group * matrices + first) * per
            row_of_group, k_of_group = share.tile.coordinates(0, start)
            at = share.at(self._inside(row + row_of_group, last), emit.short(k + k_of_group + step * share.step))
            target = emit.part(self._registers, self._first(step) + start, matrices * per)
            source = Region(share.region.buffer, at, tuple(const(1, index.dtype) for index in at))
            emit.build.emit(CallStmt(instruction, (target, source), (share.region,), (target,)))

        emit.loop("g", times, load)
