"""Divides the shared memory of a warp-specialized block into pipeline stages and staging tiles of the epilogue.

Takes a launch with its load groups and epilogue stores, gives a `SharedMemoryBudget`. Invariant: stages and staging
tiles fit beside everything else that the program keeps in shared memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilelang.analysis.accesses import storages
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import int_const
from tilelang.ir.stmt import Alloc, Launch
from tilelang.ir.visit import walk
from tilelang.layout.boxes import ALIGNMENT
from tilelang.ops.gemm import Gemm
from tilelang.records import record
from tilelang.saved_schedule import ScheduleOverrides
from tilelang.schedule.load_groups import LoadGroup
from tilelang.targets.machine import Machine
from tilelang.targets.nvidia.isa.wgmma import ROWS
from tilelang.targets.nvidia.passes.choose_cache_policy import streamed_tiles
from tilelang.targets.nvidia.passes.costs import iteration_cycles, stages_that_hide_loads, streaming_cycles
from tilelang.targets.nvidia.passes.warp_specialization.epilogue import EpilogueStore, has_full_rows, split_into_parts

_MAX_STAGES = 8  # more stages were never faster, unless tiles are small
_BYTES_IN_FLIGHT = 128 * 1024  # enough bytes in flight per multiprocessor to hide the latency of memory
# Enough bytes in flight per multiprocessor of tensors that a launch reads once, where that takes longer than the gemms.
# With more, short loops take longer, since memory does not serve all multiprocessors alike: on an H200 decoding with 8
# iterations of 32 KiB took 16.7, 16.9, 17.1, 17.8 and 17.8 us with 2 to 6 stages, with 128 iterations 136 to 137 us
# with any, and a gemm of 16 rows, 64 iterations of 16 KiB, 39.0 us with 4 stages and 38.4 to 39.0 us with 5 to 10.
_STREAMED_BYTES = 96 * 1024
_LEAST_STAGES = 2  # with fewer, no load overlaps the use of another by the same block
# With fewer, unless they hide the latency of memory, it is better to store from registers
_MIN_STAGES = 3
# Parts of the epilogue, where these leave space for another stage: at 8192 x 8192 x 1024 tiles of 128x192
# reached 1.117 of cuBLAS in three parts and 1.075 at once, at 5000^3 those of 128x224 0.969 in two parts and 0.930.
_MAX_EPILOGUE_PARTS = 4


@record(slots=True)
class SharedMemoryBudget:
    """How shared memory is used.

    Attributes:
        stages: Stages of the tiles that pipelined loops load.
        outer_stages: Stages of the tiles that are loaded outside of pipelined loops.
        epilogue_parts: In how many parts the epilogue stores through shared memory; 0 if it stores from registers.
        staged_additions: Whether atomic additions of pipelined loops go through shared memory.
    """

    stages: int
    outer_stages: int
    epilogue_parts: int
    staged_additions: bool = False


def shared_memory_budget(
    launch: Launch,
    load_groups: Sequence[LoadGroup],
    stores: Sequence[EpilogueStore],
    shared_bytes: int,
    overrides: ScheduleOverrides,
    *,
    machine: Machine | None = None,
    persistent: bool,
    concurrent_tiles: int,
    blocks_per_sm: int = 1,
    demoted: Collection[Buffer] = (),
    doubled: Collection[Buffer] = (),
) -> SharedMemoryBudget | str:
    """The best use of shared memory; a reason where too few stages fit.

    Args:
        launch: A launch as `flatten_sequences` gives it.
        load_groups: The loads of the producer.
        stores: The stores that may go through shared memory.
        shared_bytes: Bytes of shared memory of a block.
        overrides: What the user sets.
        machine: The machine that runs it; None if no figure of it is to be used.
        persistent: Whether blocks loop over the tiles of the grid.
        concurrent_tiles: How many tiles of the grid may be in their epilogue at the same time.
        blocks_per_sm: Blocks at once on a multiprocessor, of which one may compute while the others load.
        demoted: Fragments that do not fit into registers and are kept in shared memory.
        doubled: Tiles of the launch that have two versions.
    """
    least, enough = (_LEAST_STAGES, _MIN_STAGES) if blocks_per_sm == 1 else (1, 1)
    loaded = {tile for load_group in load_groups for tile in load_group.tiles}
    pipelined_tiles = loaded | {store.staging for store in stores}
    used = storages(launch.body).all
    allocated = (s.buffer for s in walk(launch.body) if isinstance(s, Alloc))
    tiles = [buffer for buffer in allocated if buffer.scope is Scope.SHARED and buffer.storage in used]
    budget = shared_bytes - ALIGNMENT  # for barriers
    budget -= sum(_size(tile) for tile in tiles if tile.view_of is None and tile not in pipelined_tiles)
    budget -= sum(map(_size, (*demoted, *doubled)))
    budget -= max((_overread(s) for s in walk(launch.body) if isinstance(s, Gemm)), default=0)
    pipelined = [load_group for load_group in load_groups if load_group.pipelined]
    staged = list(dict.fromkeys(t for load_group in pipelined for t in load_group.tiles))
    outer = sum(map(_size, loaded - set(staged)))
    stage = sum(map(_size, staged))
    most = _max_stages(pipelined, stage, overrides, persistent=persistent)
    if machine is not None and machine.rates is not None and overrides.stages is None:
        loops = dict.fromkeys(load_group.loop for load_group in pipelined if load_group.loop is not None)
        shortest = min(iteration_cycles(loop, machine.rates) for loop in loops)
        enough = min(enough, max(least, stages_that_hide_loads(stage, shortest, machine.rates)))
        most = min(most, max(least, _streaming_stages(launch, pipelined, shortest, machine) or most))

    additions = [each for each in stores if each.adds and each.pipelined]
    stores = [each for each in stores if each not in additions]
    added = sum(_size(each.staging) for each in additions)
    staged_additions = bool(additions) and _fitting(staged, budget - added) >= max(least, overrides.stages or 0)
    budget -= added if staged_additions else sum(_size(each.staging) for each in additions if each.writer is not None)

    def stages(epilogue_parts: int, versions: int) -> int:
        left = budget - _staging(stores, epilogue_parts) * concurrent_tiles - versions * outer
        return min(_fitting(staged, left), most)

    best = SharedMemoryBudget(0, 1, 0, staged_additions)
    for through_shared, versions in ((True, 2), (True, 1), (False, 2), (False, 1)):
        choices = [parts for parts in _epilogue_choices(stores, overrides) if bool(parts) is through_shared]
        if not choices or versions > 1 and not (persistent and outer):
            continue
        epilogue_parts = max(choices, key=lambda parts: (stages(parts, versions), -parts))
        candidate = SharedMemoryBudget(stages(epilogue_parts, versions), versions, epilogue_parts, staged_additions)
        if candidate.stages >= min(enough, most):
            return candidate
        if candidate.stages > best.stages:
            best = candidate
    if best.stages < min(least, most):
        held = "one version" if best.stages == 1 else "no version"
        return f"shared memory holds {held} of {stage} bytes of tiles"
    return best


def _epilogue_choices(stores: Sequence[EpilogueStore], overrides: ScheduleOverrides) -> tuple[int, ...]:
    """The numbers of parts to choose from; 0 stands for stores from registers."""
    override = overrides.epilogue_parts
    if not stores or override is not None and not override:
        return (0,)
    if override is not None and override is not True:
        return (override if any(split_into_parts(each, override).parts == override for each in stores) else 1,)
    counts = range(2, _MAX_EPILOGUE_PARTS + 1)
    parts = [n for n in counts if all(has_full_rows(split_into_parts(each, n), n) for each in stores)]
    return (1, *parts) if override else (1, *parts, 0)


def _staging(stores: Sequence[EpilogueStore], epilogue_parts: int) -> int:
    """Bytes of the staging tiles for `epilogue_parts` parts, including tiles of the program that serve as such."""
    used = [each for each in stores if epilogue_parts or each.writer is not None and each.direct is None]
    if epilogue_parts:
        used = [split_into_parts(each, epilogue_parts) for each in used]
    return sum(_size(each.staging) for each in used)


def _max_stages(pipelined: Sequence[LoadGroup], stage: int, overrides: ScheduleOverrides, *, persistent: bool) -> int:
    """The largest number of stages that is of use."""
    if overrides.stages is not None:
        return overrides.stages
    most = min(max(_MAX_STAGES, _BYTES_IN_FLIGHT // stage), 2 * _MAX_STAGES)
    counts = [load_group.fill_count().maximum for load_group in pipelined]
    constants = [count for count in counts if count is not None]
    return most if persistent or len(constants) < len(counts) else min(most, max(1, *constants))


def _streaming_stages(launch: Launch, pipelined: Sequence[LoadGroup], cycles: int, machine: Machine) -> int:
    """The stages beyond which a loop does not stream device memory faster; 0 for one that waits for its gemms."""
    tiles = {tile for load_group in pipelined for tile in load_group.tiles}
    if streaming_cycles(sum(map(_size, tiles)), machine) <= cycles:
        return 0
    count = sum(map(_size, tiles & set(streamed_tiles(launch))))
    return -(-_STREAMED_BYTES // count) if streaming_cycles(count, machine) > cycles else 0


def _fitting(tiles: Sequence[Buffer], room: int) -> int:
    """How many versions of all tiles fit; those of a tile follow each other."""
    count = max(room, 0) // max(1, sum(tile.bytes or 0 for tile in tiles))
    while count and sum(_size(tile, count) for tile in tiles) > room:
        count -= 1
    return count


def _size(tile: Buffer, versions: int = 1) -> int:
    """Bytes of a tile in shared memory, rounded up to the alignment of tiles."""
    return -(-(tile.bytes or 0) * versions // ALIGNMENT) * ALIGNMENT


def _overread(gemm: Gemm) -> int:
    """Bytes that a gemm by wgmma may read past the end of A: missing rows up to a multiple of 64."""
    m, _, k = (int_const(size) or 0 for size in gemm.sizes)
    size = gemm.operands[0].storage_bytes
    return -m % ROWS * (k * size if gemm.transpose_a else 128)
