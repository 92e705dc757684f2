"""The functions of `tilelang.numpy`, by subject, and the names of all."""

from tilelang.level1.functions import (
    constants,
    creation,
    elementwise,
    linear,
    normalization,
    notation,
    reductions,
    selection,
    shaping,
    sorting,
)

MODULES = (
    elementwise,
    reductions,
    normalization,
    linear,
    selection,
    sorting,
    shaping,
    creation,
    notation,
    constants,
)
NAMES = tuple(name for module in MODULES for name in module.__all__)
