"""The addresses of a warp's lanes, as instructions get them: of elements by their indices, and of registers.

Takes indices or offsets per lane. Invariant: fields of a pointer beyond its offsets are for checks and speed only.
"""

from __future__ import annotations

import numpy as np

from tilelang.ir.buffer import Buffer
from tilelang.isa.simulated import Pointer
from tilelang.records import record
from tilelang.sim.lane_expressions import Value


@record
class ElementPointer(Pointer):
    """A pointer to an element whose indices are known, so that each of them can be checked.

    Attributes:
        indices: Per dimension, one for all lanes or one per lane.
    """

    indices: tuple[Value, ...] = ()


class RegisterPointer(Pointer):
    """A pointer to registers that all lanes index alike, the usual case, for which no arrays are needed.

    Attributes:
        place: Elements from the beginning of the buffer.
        lanes: How many lanes there are.
    """

    place: int
    lanes: int

    def __init__(self, buffer: Buffer, place: int, lanes: int) -> None:
        object.__setattr__(self, "buffer", buffer)
        object.__setattr__(self, "place", place)
        object.__setattr__(self, "lanes", lanes)

    @property
    def offset(self) -> np.ndarray:
        """The same offset for every lane."""
        return np.full(self.lanes, self.place)

    def __add__(self, elements: int | np.ndarray) -> Pointer:
        """The addresses some elements further."""
        if isinstance(elements, int):
            return RegisterPointer(self.buffer, self.place + elements, self.lanes)
        return Pointer(self.buffer, self.offset + elements)
