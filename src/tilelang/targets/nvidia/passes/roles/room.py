"""What fits into the shared memory of a block with roles: versions of tiles, and tiles through which results leave.

Takes a launch with its rings and exits, gives how many of each there are (`Room`). Invariant: all of it fits beside
what else the program keeps in shared memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import int_const
from tilelang.ir.stmt import Alloc, Launch
from tilelang.ir.visit import walk
from tilelang.layout.boxes import ALIGNMENT
from tilelang.ops.gemm import Gemm
from tilelang.options import ScheduleWishes
from tilelang.records import record
from tilelang.targets.nvidia.isa.wgmma import ROWS
from tilelang.targets.nvidia.passes.roles.epilogue import Exit, has_even_rows, in_parts
from tilelang.targets.nvidia.passes.roles.rings import Ring

_MOST_STAGES = 8  # more versions of a tile were never faster, unless tiles are small
_ENOUGH_BYTES = 128 * 1024  # on their way to a multiprocessor hide the latency of memory
_FEW_STAGES = 3  # with fewer, results had better leave straight from registers
# Parts in which results may leave, where that makes room for another version: at 8192 x 8192 x 1024 tiles of 128x192
# reached 1.117 of cuBLAS in three parts and 1.075 at once, at 5000^3 those of 128x224 0.969 in two parts and 0.930.
_MOST_PARTS = 4


@record(slots=True)
class Room:
    """How shared memory is used.

    Attributes:
        stages: Versions of tiles that pipelined loops bring.
        tile_stages: Versions of what is brought outside of pipelined loops.
        staged: In how many parts results leave through shared memory; 0 if they do not.
    """

    stages: int
    tile_stages: int
    staged: int


def room_of(
    launch: Launch,
    rings: Sequence[Ring],
    exits: Sequence[Exit],
    shared_bytes: int,
    wishes: ScheduleWishes,
    *,
    persistent: bool,
    at_once: int,
    kept: Collection[Buffer] = (),
) -> Room | str:
    """How shared memory is used best; why nothing fits, if it does not.

    Args:
        launch: A flat launch.
        rings: What others bring.
        exits: What may leave through shared memory.
        shared_bytes: What a block has.
        wishes: What the user wants of it.
        persistent: Whether blocks stay for several tiles of the grid.
        at_once: Of how many such tiles results may be on their way.
        kept: Fragments that threads cannot hold, so that they are kept in shared memory.
    """
    brought = {tile for ring in rings for tile in ring.tiles}
    mine = brought | {made.staging for made in exits}
    tiles = [s.buffer for s in walk(launch.body) if isinstance(s, Alloc) and s.buffer.scope is Scope.SHARED]
    room = shared_bytes - ALIGNMENT  # for barriers
    room -= sum(_size(tile) for tile in tiles if tile.view_of is None and tile not in mine)
    room -= sum(map(_size, kept))
    room -= max((_overhang(s) for s in walk(launch.body) if isinstance(s, Gemm)), default=0)
    once = sum(_size(t) for ring in rings if not ring.pipelined for t in ring.tiles)
    pipelined = [ring for ring in rings if ring.pipelined]
    stage = sum(_size(t) for ring in pipelined for t in ring.tiles)
    most = _most_stages(pipelined, stage, wishes, persistent=persistent)

    def stages(staged: int, versions: int) -> int:
        return min((room - _staging(exits, staged) * at_once - versions * once) // stage, most)

    best = Room(0, 1, 0)
    for is_staged, versions in ((True, 2), (True, 1), (False, 2), (False, 1)):
        ways = [way for way in _ways(exits, wishes) if bool(way) is is_staged]
        if not ways or versions > 1 and not (persistent and once):
            continue
        staged = max(ways, key=lambda way: (stages(way, versions), -way))
        made = Room(stages(staged, versions), versions, staged)
        if made.stages >= min(_FEW_STAGES, most):
            return made
        if made.stages > best.stages:
            best = made
    if best.stages < min(2, most):
        held = "one version" if best.stages == 1 else "no version"
        return f"shared memory holds {held} of {stage} bytes of tiles"
    return best


def _ways(exits: Sequence[Exit], wishes: ScheduleWishes) -> tuple[int, ...]:
    """In how many parts results may leave; 0 for straight from registers."""
    if not exits or wishes.staged is not None and not wishes.staged:
        return (0,)
    if wishes.staged is not None and wishes.staged is not True:
        return (wishes.staged if any(in_parts(made, wishes.staged).parts == wishes.staged for made in exits) else 1,)
    parts = [n for n in range(2, _MOST_PARTS + 1) if all(has_even_rows(in_parts(made, n), n) for made in exits)]
    return (1, *parts) if wishes.staged else (1, *parts, 0)


def _staging(exits: Sequence[Exit], staged: int) -> int:
    """What the tiles take through which results leave in so many parts, those of the program included."""
    used = [in_parts(made, staged) if staged else made for made in exits if staged or made.writer is not None]
    return sum(_size(made.staging) for made in used)


def _most_stages(pipelined: Sequence[Ring], stage: int, wishes: ScheduleWishes, *, persistent: bool) -> int:
    """Versions that are worth having."""
    if wishes.stages is not None:
        return wishes.stages
    most = min(max(_MOST_STAGES, _ENOUGH_BYTES // stage), 2 * _MOST_STAGES)
    counts = [ring.uses().most for ring in pipelined]
    known = [count for count in counts if count is not None]
    return most if persistent or len(known) < len(counts) else min(most, max(1, *known))


def _size(tile: Buffer) -> int:
    """What a tile takes in shared memory, with the gap behind it."""
    return -(-(tile.bytes or 0) // ALIGNMENT) * ALIGNMENT


def _overhang(product: Gemm) -> int:
    """What a product may fetch behind the last tile: rows of A that it does not have, within boxes of 128 bytes."""
    m, _, k = (int_const(size) or 0 for size in product.sizes)
    size = product.operands[0].storage_bytes
    return -m % ROWS * (k * size if product.transpose_a else 128)
