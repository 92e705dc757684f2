"""The machine of most tests of layouts, and layouts for warps as wide as its own."""

import functools

from tilelang.layout import blocked as layouts
from tilelang.targets.nvidia.machines import MACHINES

MACHINE = MACHINES["sm_80"]

blocked = functools.partial(layouts.blocked, warp_size=MACHINE.warp_size)
row_variants = functools.partial(layouts.row_variants, warp_size=MACHINE.warp_size)
