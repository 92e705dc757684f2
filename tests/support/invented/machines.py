"""The machine: what it can do, and its figures.

Takes nothing; gives `Feature` and `MACHINES`.
"""

from __future__ import annotations

import enum

from tilelang.targets.machine import Machine


class Feature(enum.Flag):
    """What a machine can do beyond the instructions that all of them have."""

    NONE = 0
    MATRIX_F16 = enum.auto()  # the product of 32 x 8 and 8 x 32 halves by a wave


WAVE_SIZE = 64
DEFAULT_ARCH = "wave64"


def _machine(name: str, features: Feature) -> Machine:
    return Machine(
        name,
        features,
        warp_size=WAVE_SIZE,
        max_threads=1024,
        max_grid=(2**31 - 1, 65535, 65535),
        registers_per_multiprocessor=4 * 512 * WAVE_SIZE,
        register_files=4,
        shared_bytes=64 * 1024,
        shared_banks=32,
        bank_bytes=4,
    )


MACHINES: dict[str, Machine] = {
    row.name: row for row in (_machine("wave64", Feature.MATRIX_F16), _machine("wave64-plain", Feature.NONE))
}
