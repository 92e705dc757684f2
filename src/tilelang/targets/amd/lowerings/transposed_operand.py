"""Operands of matrix instructions that are contiguous along rows in LDS, not along K, loaded by transposing reads.

Takes an operand of a gemm and the part of it that a wave needs; gives an object that loads the registers of one step
along K. See `targets.gpu.lowerings.mma_operand` for other operands.
"""

from __future__ import annotations

from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr, const
from tilelang.ir.stmt import CallStmt
from tilelang.layout.layout import Layout
from tilelang.lowering.operand_layout import WarpAccess, is_contiguous_in_runs
from tilelang.records import record
from tilelang.targets.amd.isa.transposed_read import (
    ADDRESSED_ROW,
    BYTES,
    COLUMN_LANE,
    GROUP_LANES,
    ITEM_BYTES,
    READ_TRANSPOSED,
    ROWS,
    can_fill,
)
from tilelang.targets.gpu.lowerings.mma_operand import ElementOperand, Share


@record
class TransposableShare(Share):
    """A wave's part of an operand that transposing reads may load."""

    @property
    def is_read_transposed(self) -> bool:
        """Whether transposing reads give each lane the operands of its matrix instruction."""
        whole = self.cover == self.rows or self.rows % ROWS == 0
        return self.transposes and self.dtype.storage_bytes == ITEM_BYTES and whole and can_fill(self.tile)

    def accesses(self, height: int, length: int) -> list[WarpAccess]:
        """The accesses of a wave to a tile of `height` rows of `length` elements."""
        if not self.is_read_transposed:
            return super().accesses(height, length)
        table = self.tile.table
        lanes = range(table.shape[0])
        return [
            WarpAccess(
                table[lanes, first + ADDRESSED_ROW, 1] % height, table[COLUMN_LANE, first, 0] % length, BYTES
            )
            for first in range(0, table.shape[1], ROWS)
        ]


class TransposableOperand(ElementOperand):
    """An operand in LDS, loaded by transposing reads where its layout allows, else element by element."""

    _share: TransposableShare

    def _begin(self, layout: Layout | None) -> tuple[Expr, Expr] | None:
        """Computes the address of the lane, or of its first element, before the first step."""
        share, lane = self._share, self._lane
        self._addressed: tuple[Expr, Expr] | None = None
        if not share.is_read_transposed or not is_contiguous_in_runs(share.region, layout, ROWS):
            return self._lane_start()
        column_lane = lane // GROUP_LANES * GROUP_LANES + lane % ROWS * ROWS
        self._addressed = self._bind(self._name, *share.tile.coordinates(column_lane, lane % GROUP_LANES // ROWS))
        return None

    def fetch(self, step: Expr, *, tail: bool) -> None:
        """Loads the registers of all instructions of a step."""
        share, emit = self._share, self._emit
        if self._addressed is None or tail:
            self._load_elements(step, tail=tail)
            return
        row, k = self._addressed

        def load(group: Expr) -> None:
            row_of_value, k_of_value = share.tile.coordinates(0, group * ROWS)
            along_k = emit.short(k + k_of_value + step * share.step)
            at = share.at(self._inside(row + row_of_value, share.rows - ROWS), along_k)
            target = emit.part(self._registers, self._first(step) + group * ROWS, ROWS)
            source = Region(share.region.buffer, at, tuple(const(1, index.dtype) for index in at))
            emit.build.emit(CallStmt(READ_TRANSPOSED, (target, source), (share.region,), (target,)))

        emit.loop("v", self._count // ROWS, load)
