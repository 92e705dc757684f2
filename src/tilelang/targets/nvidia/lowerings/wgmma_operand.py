"""Layouts of wgmma operands in shared memory, and their matrix descriptors.

Takes the region of an operand, gives the box layouts that it can have and, for those, the fields of its descriptor and
the offsets of elements. Invariant: every part that an instruction reads begins at a swizzle period or stays within one
box, so that its descriptor is the first one plus an offset.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", "Matrix Descriptor Format"; measured on an H200 for
both majors of every mode.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr, ExprLike, as_expr, int_const
from tilelang.layout.boxes import PERIOD_ROWS, Boxes, boxed, find_boxes, fits
from tilelang.layout.layout import Layout
from tilelang.layout.xor_swizzle import MODES
from tilelang.records import record
from tilelang.targets.nvidia.isa.matrix_descriptor import CHUNK, STEP_BYTES, SWIZZLE_CODES


@record
class Tile:
    """An operand in shared memory, viewed as rows (along M or N) by K.

    Attributes:
        region: The operand: a part of the last two dimensions of its buffer.
        transposed: Whether rows are what is contiguous, not K.
        rows: Its extent along M or N.
        unit: Rows that one instruction reads; they begin at multiples of it.
    """

    region: Region
    transposed: bool
    rows: int
    unit: int

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.region.dtype.storage_bytes

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the buffer; empty if it is not constant."""
        return self.region.buffer.static_shape or ()

    @property
    def bits(self) -> int:
        """Of an element."""
        return 8 * self.size

    def candidates(self) -> Iterator[Boxes]:
        """The possible boxes, widest first."""
        for row in (*MODES, CHUNK):
            boxes = Boxes(row if row > CHUNK else 0, row // self.size)
            if fits(self.shape, self.bits, row) and self.suits(boxes):
                yield boxes

    def boxes_of(self, layout: Layout) -> Boxes | None:
        """The boxes of a layout that the buffer already has; None if descriptors cannot address them."""
        boxes = find_boxes(layout, self.shape, self.bits)
        return boxes if boxes is not None and self.suits(boxes) else None

    def suits(self, boxes: Boxes) -> bool:
        """Whether descriptors can address the operand in these boxes."""
        first_line, first = self.region.start[-2:]
        if boxes.columns * self.size != (boxes.mode_bytes or CHUNK) or not _is_multiple(first_line, PERIOD_ROWS):
            return False
        wide, begin = boxes.columns, int_const(first)
        if begin is None:
            if not _is_multiple(first, wide):
                return False
            begin = 0
        if not self.transposed:
            return begin * self.size % (STEP_BYTES if boxes.mode_bytes else CHUNK) == 0
        places = [(begin + row) % wide for row in range(0, self.rows, self.unit)]
        return all(offset == 0 or offset + self.unit <= wide and offset * self.size % CHUNK == 0 for offset in places)

    # -- descriptors, for boxes that suit ---------------------------------------------------------------------
    def layout(self, boxes: Boxes) -> Layout:
        """The layout that the buffer must have."""
        return boxed(self.shape[-2:], self.bits, boxes.columns * self.size)

    def overhang(self, boxes: Boxes, rows: int, k: int) -> int:
        """Bytes past the buffer that instructions on `rows` x `k` elements fetch at most."""
        last, reached = (int_const(self.chunks(boxes, row - 1, k - 1)) for row in (self.rows, rows))
        return ((reached or 0) - (last or 0)) * CHUNK

    def distances(self, boxes: Boxes) -> tuple[int, int, int]:
        """The leading and the stride distance in bytes, and the code of the permutation."""
        line = boxes.columns * self.size  # bytes from one line of a box to the next
        box, period = self.shape[-2] * line, PERIOD_ROWS * line
        if boxes.mode_bytes:
            return (box if self.transposed else 0), period, SWIZZLE_CODES[boxes.mode_bytes]
        return (period, box, 0) if self.transposed else (box, period, 0)

    def chunks(self, boxes: Boxes, row: ExprLike, k: ExprLike) -> Expr:
        """Return the distance of an element from the operand's first, in chunks of 16 bytes."""
        line, column = (k, row) if self.transposed else (row, k)
        first = int_const(self.region.start[-1]) or 0
        wide, per_line = boxes.columns, boxes.columns * self.size // CHUNK
        per_chunk = CHUNK // self.size
        column = as_expr(column) + first
        inside = column % wide // per_chunk + column // wide * (self.shape[-2] * per_line)
        before = first % wide // per_chunk + first // wide * self.shape[-2] * per_line
        return inside - before + as_expr(line) * per_line


def _is_multiple(value: Expr, of: int) -> bool:
    return of == 1 or proves((value % of) == 0, Domain())
