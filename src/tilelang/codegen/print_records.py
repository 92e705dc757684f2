"""The records by which kernels print where there is no `printf`: what the device writes, and the text that it means.

A record is three words of 64 bits: its writer in two of them, of which the lowest `KIND_BITS` bits are its `Kind`, and
a value. Takes records in the order in which they were written, gives the texts of `T.print` statements, whose records
those of other threads may interrupt.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum

KIND_BITS = 3
WORDS = 3  # of a record
TEXT_BYTES = 8  # of a text in a record


class Kind(IntEnum):
    """The content of a record.

    Attributes:
        END: Nothing; the statement of this thread is complete.
        TEXT: Eight bytes of a text, or fewer and zeros.
        FLOAT: A float64.
        TRUTH: A truth value.
        SIGNED: A signed integer.
        UNSIGNED: An unsigned integer.
    """

    END = 0
    TEXT = 1
    FLOAT = 2
    TRUTH = 3
    SIGNED = 4
    UNSIGNED = 5


def printed_texts(words: Sequence[int]) -> list[str]:
    """The text of each statement whose last record is among these, in the order of the last ones."""
    open_texts: dict[tuple[int, int], bytearray] = {}
    done: list[str] = []
    for place in range(0, len(words), WORDS):
        first, second, value = words[place : place + WORDS]
        kind, writer = Kind(first & (1 << KIND_BITS) - 1), (first >> KIND_BITS, second)
        if kind is Kind.END:
            done.append(open_texts.pop(writer, bytearray()).decode(errors="replace"))
        else:
            open_texts.setdefault(writer, bytearray()).extend(_piece(kind, value))
    return done


def _piece(kind: Kind, value: int) -> bytes:
    """Return the text of a record, by the rules of `sim.printing`."""
    bits = struct.pack("<Q", value)
    match kind:
        case Kind.TEXT:
            return bits.rstrip(b"\0")
        case Kind.FLOAT:
            (number,) = struct.unpack("<d", bits)
            return (f"{number:g}" if number == number else "nan").encode()
        case Kind.TRUTH:
            return b"True" if value else b"False"
        case Kind.SIGNED:
            return str(*struct.unpack("<q", bits)).encode()
        case _:
            return str(value).encode()
