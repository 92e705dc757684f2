"""How many consumer warpgroups share the tiles of a block, each with rows of a gemm.

Takes a launch as `flatten_sequences` gives it and the gemms of its pipelined loops; gives a number, or a reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.ir.expr import int_const
from tilelang.ir.stmt import Launch, ParallelLoop
from tilelang.ir.visit import walk
from tilelang.layout.thread_values import Fragment
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.targets.nvidia.isa.wgmma import ROWS
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import TargetCapabilities
from tilelang.targets.nvidia.passes.warp_specialization.check_overrides import check_consumers
from tilelang.targets.nvidia.passes.warp_specialization.register_budget import live_tile_registers, registers_for_tiles
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS


def choose_consumers(
    launch: Launch, gemms: Sequence[Gemm], capabilities: TargetCapabilities, asked: int | None, blocks_per_sm: int
) -> int | str:
    """The number of warpgroups, two with columns where one lacks registers; or why there is none.

    Args:
        launch: The launch.
        gemms: The gemms of its pipelined loops.
        capabilities: What the target's lowerings can do.
        asked: How many the user sets.
        blocks_per_sm: Blocks at once on a multiprocessor; if there are several, they are small.

    Raises:
        ProgramError: Another number than the user's can share the work.
    """
    threads, fixed = launch.num_threads, has_fixed_layouts(launch)
    if fixed and threads % WARPGROUP_THREADS:
        return f"the kernel fixes the layouts of {threads} threads, which are no whole warpgroups"

    def refusal(count: int, *, required: bool) -> str:
        return consumers_refusal(launch, count, gemms, capabilities, blocks_per_sm, required=required)

    def asked_refusal(count: int) -> str:
        if fixed and count * WARPGROUP_THREADS != threads:
            return f"layouts in the kernel divide tiles among {threads} threads"
        return refusal(count, required=True)

    if asked is not None:
        check_consumers(launch, asked, asked_refusal)
    override = threads // WARPGROUP_THREADS if fixed else asked
    choices = [(override or 1, True)]
    if not override and blocks_per_sm == 1:
        choices = [(2, False), (3, False), (1, False), (2, True)]
    reason = ""
    for count, required in choices:
        reason = refusal(count, required=required)
        if not reason:
            return count
    return reason


def consumers_refusal(
    launch: Launch,
    count: int,
    gemms: Sequence[Gemm],
    capabilities: TargetCapabilities,
    blocks_per_sm: int = 1,
    *,
    required: bool,
) -> str:
    """Why `count` warpgroups are unsuitable; empty if they are not."""
    threads = count * WARPGROUP_THREADS
    divisors = [p for p in gemms if not capabilities.wgmma_refusal(p, threads)]
    if not divisors:
        line = f"line {gemms[0].loc.line}: " if gemms[0].loc.line else ""
        return f"{line}T.gemm: {capabilities.wgmma_refusal(gemms[0], threads)}"
    if not required and count > 1 and not _divide_rows(count, gemms, divisors):
        return f"{count} warpgroups do not divide the rows of a gemm"
    needed = live_tile_registers(launch, count)
    if needed > (least := registers_for_tiles(count, blocks_per_sm)):
        return f"tiles take {needed} registers of a thread, which has {least} for them"
    return ""


def _divide_rows(count: int, gemms: Sequence[Gemm], by_wgmma: Sequence[Gemm]) -> bool:
    """Whether `count` warpgroups divide the rows of gemms: of all, or of some where all others divide columns.

    The gradient of the queries in the backward pass of attention has fewer rows than the gemms beside it. Where no
    gemm has enough rows, fewer warpgroups with all columns each read less shared memory.
    """
    divided = [-(-(int_const(gemm.sizes[0]) or 0) // ROWS) % count == 0 for gemm in by_wgmma]
    return all(divided) or any(divided) and len(by_wgmma) == len(gemms)


def has_fixed_layouts(launch: Launch) -> bool:
    """Whether layouts in the kernel fix which thread holds what."""
    loops = [s for s in walk(launch.body) if isinstance(s, ParallelLoop | Copy) and s.layout is not None]
    return bool(loops) or any(isinstance(layout, Fragment) for _, layout in launch.hints.layouts)
