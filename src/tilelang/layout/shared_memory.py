"""Layouts of shared memory: common ones, their contiguity, and the cost of a warp's access (bank conflicts).

Takes shapes and addresses, gives `Layout`s, offsets and counts. Invariant: `offsets` are the row-major offsets of a
layout's output coordinates, as shared memory is flattened.

Source: CUDA C++ Programming Guide, "Shared Memory" (compute capability 5.x and later): successive words are in
successive banks, lanes that read one word share it. "CUDA C++ Best Practices Guide" and Nsight Compute's "Shared
Memory" table: accesses of two words are executed by half warps, of four words by quarter warps, each of which has a
word for every bank. Machines whose lanes are served in other phases say so in their record.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tilelang.layout.layout import Coordinate, Layout
from tilelang.targets.machine import Machine

MAX_VECTOR_BYTES = 16
INACTIVE = -1
"""The address of a lane that does not access memory."""


def row_major(shape: Sequence[int]) -> Layout:
    """The row-major layout."""
    return Layout(shape, lambda *coordinates: coordinates)


def padded(shape: Sequence[int], pad: int) -> Layout:
    """Row-major with `pad` unused elements after each row but the last.

    Shapes: (..., rows, columns) -> (..., offset).
    """
    width = shape[-1] + pad

    def place(*coordinates: Coordinate) -> tuple[Coordinate, ...]:
        *leading, row, column = coordinates
        return (*leading, row * width + column)

    return Layout(shape, place)


def offsets(layout: Layout) -> np.ndarray:
    """The offset of every element, in elements.

    Shapes: the layout's.
    """
    box = layout.output_shape
    weights = np.array([int(np.prod(box[axis + 1 :])) for axis in range(len(box))], np.int64)
    return layout.table @ weights


@lru_cache(maxsize=256)
def has_pitch(layout: Layout) -> bool:
    """Whether rows of a matrix lie one after another at equal distances, with successive elements."""
    places = offsets(layout)
    rows, columns = np.ogrid[: places.shape[0], : places.shape[1]]
    pitch = places[1, 0] - places[0, 0] if len(places) > 1 else 0
    return bool((places == rows * pitch + columns).all())


@lru_cache(maxsize=256)
def contiguous_elements(layout: Layout) -> int:
    """The widest aligned vector along the last dimension that is contiguous in memory, in elements.

    The largest power of two n such that elements n * k to n * k + n - 1 of every row are contiguous and aligned to n.
    """
    places = offsets(layout)
    if not places.size:
        return 1
    extent = layout.shape[-1] if layout.shape else 1
    count = extent & -extent
    while count > 1:
        groups = places.reshape(-1, count)
        if (groups[:, :1] % count == 0).all() and (groups == groups[:, :1] + np.arange(count)).all():
            return count
        count //= 2
    return 1


def wavefronts(addresses: np.ndarray, width: int, machine: Machine, kind: str = "load") -> np.ndarray:
    """The cycles (wavefronts) of accesses of a warp to shared memory.

    Args:
        addresses: In bytes, one per lane; `INACTIVE` for lanes that are masked off.
        width: Bytes per lane, a power of two up to 16.
        machine: The machine with the shared memory.
        kind: "load" or "store".

    Shapes: addresses (..., lanes) -> (...).
    """
    words = max(1, width // machine.bank_bytes)
    flat = addresses.reshape(-1, machine.warp_size)
    total = np.zeros(len(flat), np.int64)
    phases = machine.phases(kind, width)
    for together in phases.lanes:
        lanes = flat[:, together]
        touched = lanes[:, :, None] // machine.bank_bytes + np.arange(words)
        touched = np.where(lanes[:, :, None] < 0, -1, touched).reshape(len(flat), -1)
        total += _most_in_one_bank(touched, phases.banks or machine.shared_banks)
    return total.reshape(addresses.shape[:-1])


def _most_in_one_bank(words: np.ndarray, banks: int) -> np.ndarray:
    """The largest number of different words in one bank.

    Shapes: words (accesses, words per access), negative for none -> (accesses,).
    """
    ordered = np.sort(words, axis=1)
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    new &= ordered >= 0
    counts = np.zeros((len(words), banks), np.int64)
    rows = np.broadcast_to(np.arange(len(words))[:, None], words.shape)
    np.add.at(counts, (rows[new], ordered[new] % banks), 1)
    return np.asarray(counts.max(axis=1))


def least_wavefronts(addresses: np.ndarray, width: int, machine: Machine, kind: str = "load") -> np.ndarray:
    """The cycles of the same accesses without bank conflicts.

    Shapes: addresses (..., lanes) -> (...).
    """
    active = addresses >= 0
    phases = [active[..., together].any(axis=-1) for together in machine.phases(kind, width).lanes]
    return np.asarray(np.sum(phases, axis=0))


def conflicts(addresses: np.ndarray, width: int, machine: Machine, kind: str = "load") -> int:
    """The cycles that accesses of a warp lose to bank conflicts, all accesses together."""
    least = least_wavefronts(addresses, width, machine, kind)
    return int((wavefronts(addresses, width, machine, kind) - least).sum())
