"""Exchanges between the lanes of a wave of AMD's GPUs, which the manuals define in words.

Source: AMD Instinct MI300 and RDNA 3 Instruction Set Architecture, "Data Parallel Processing", DS_SWIZZLE_B32,
DS_BPERMUTE_B32, DS_PERMUTE_B32; CDNA 4 Instruction Set Architecture, DS_READ_B64_TR_B16.
"""

from typing import Any

import numpy as np


def exchanged(name: str, offset: int, address: Any, data: Any) -> Any:
    """What each lane gets by an instruction of LDS that exchanges lanes.

    Args:
        name: Of the instruction.
        offset: 16 bits of the instruction.
        address: Of each lane.
        data: A word of each lane, 0 where it does not run; for a transposing read four halves by lanes.
    """
    lanes = np.arange(len(address))
    if "_TR_B16" in name:
        first = lanes - lanes % 16
        halves = np.stack([data[first + lanes % 16 // 4 + 4 * j, lanes % 4] for j in range(4)]).astype(np.uint32)
        return halves[0::2] | halves[1::2] << np.uint32(16)
    if name.startswith("DS_BPERMUTE"):
        return data[(address + np.uint32(offset)) // 4 % len(lanes)]
    if name.startswith("DS_PERMUTE"):
        found = np.zeros_like(data)
        found[(address + np.uint32(offset)) // 4 % len(lanes)] = data
        return found
    if not name.startswith("DS_SWIZZLE"):
        raise NotImplementedError(name)
    if offset >> 15:
        return data[lanes & ~3 | offset >> 2 * (lanes & 3) & 3]
    within = (lanes & 31 & offset & 31 | offset >> 5 & 31) ^ offset >> 10 & 31
    return data[lanes & 32 | within]


def permuted_rows(word: Any, control: int, active: Any, lanes: int) -> tuple[Any, Any]:
    """What data-parallel primitives give each lane, and whether its source is one that runs; 0 where not."""
    lane = np.arange(lanes)
    row, within = lane & ~15, lane & 15
    count = control & 15
    kind = control >> 4
    source, inside = lane, np.ones(lanes, bool)
    if control < 0x100:
        source = lane & ~3 | control >> 2 * (lane & 3) & 3
    elif kind in (0x10, 0x11, 0x12):
        moved = {0x10: within + count, 0x11: within - count, 0x12: (within - count) % 16}[kind]
        source, inside = row + moved % 16, (moved >= 0) & (moved < 16)
    elif control in (0x140, 0x141):
        source = lane ^ (15 if control == 0x140 else 7)
    elif control in (0x142, 0x143):
        size = 16 if control == 0x142 else 32
        source = lane // size * size - 1
        inside = source >= 0
    elif kind == 0x15:
        source = row + count
    elif kind == 0x16:
        source = row + (within ^ count)
    else:
        raise NotImplementedError(f"data-parallel control {control:#x}")
    source = np.where(inside, source, 0)
    valid = inside & active[source]
    return np.where(valid, word[source], 0).astype(np.uint32), valid
