"""All faults that are seeded into kernels for Hopper, by kind.

Every change yields a program that some machine may execute wrongly, however rarely. Programs are expected to need every
barrier, fence and wait that they have.
"""

from __future__ import annotations

import seeded_barriers as barriers
import seeded_transfers as transfers
import seeded_wgmma as wgmma
from edits import ARRIVALS, waits_for_fewer_groups, without
from seeded import Change, loop_too_long, loop_too_short, shifted_operand
from seeded_barriers import WGMMA_WAITS

from tilelang.targets.gpu.isa.sync import SYNC_THREADS, SYNC_WARP
from tilelang.targets.nvidia.isa.cluster import CLUSTER_ARRIVE, CLUSTER_ARRIVE_RELAXED, CLUSTER_WAIT
from tilelang.targets.nvidia.isa.dependent_launch import GRID_DEPENDENCY_WAIT
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC_GLOBAL
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_ARRIVE_EXPECT_TX, MBARRIER_WAIT
from tilelang.targets.nvidia.isa.named_barrier import BAR_ARRIVE, BAR_SYNC
from tilelang.targets.nvidia.isa.quad_exchange import QUAD_EXCHANGE
from tilelang.targets.nvidia.isa.tma import TMA_STORE_COMMIT, tma_store_wait
from tilelang.targets.nvidia.isa.wgmma import WGMMA_COMMIT, WGMMA_FENCE

CLUSTER = (CLUSTER_ARRIVE, CLUSTER_ARRIVE_RELAXED, CLUSTER_WAIT)
STORE_WAITS = [tma_store_wait(n, read=read) for read in (True, False) for n in range(4)]

CHANGES: dict[str, Change] = {
    "scalar not assigned": barriers.scalar_not_assigned,
    "wrong parity": barriers.wrong_parity,
    "phase not flipped": barriers.phase_not_flipped,
    "too few expected bytes": barriers.wrong_expected_bytes(-128),
    "too many expected bytes": barriers.wrong_expected_bytes(128),
    "no expected bytes": barriers.no_expected_bytes,
    "arrive.expect_tx removed": without(MBARRIER_ARRIVE_EXPECT_TX),
    "mbarrier wait removed": without(MBARRIER_WAIT),
    "load before the wait": barriers.wait_after_load,
    "arrival removed": without(*ARRIVALS),
    "arrival count too large": barriers.wrong_arrival_count(1),
    "arrival count too small": barriers.wrong_arrival_count(-1),
    "initialization not published": barriers.init_not_published,
    "stage released before the wait": barriers.released_before_wait,
    "fewer stages": barriers.fewer_stages,
    "order barrier removed": barriers.no_order_barrier,
    "proxy fence removed": barriers.unfenced,
    "proxy fence of global memory removed": without(FENCE_PROXY_ASYNC_GLOBAL),
    "store wait removed": without(*STORE_WAITS),
    "wait for too few store groups": waits_for_fewer_groups(STORE_WAITS),
    "store commit removed": without(TMA_STORE_COMMIT),
    "wgmma fence removed": without(WGMMA_FENCE),
    "wgmma commit removed": without(WGMMA_COMMIT),
    "wgmma wait removed": without(*WGMMA_WAITS),
    "wait for too few wgmma groups": waits_for_fewer_groups(WGMMA_WAITS),
    "descriptor moved": wgmma.descriptor_moved,
    "leading distance altered": wgmma.distance_altered(1),
    "stride distance altered": wgmma.distance_altered(2),
    "swizzle of a descriptor altered": wgmma.code_altered,
    "step along K altered": wgmma.step_altered,
    "scale-d altered": wgmma.wrong_scale_d,
    "partial sum not sent": transfers.partial_sum_not_sent,
    "partial sum to a wrong block": transfers.partial_sum_to_wrong_block,
    "partial sum to a wrong address": transfers.partial_sum_to_wrong_address,
    "wrong partial sum sent": transfers.wrong_partial_sum,
    "coordinate shifted": transfers.coordinate_shifted,
    "coordinates swapped": transfers.coordinates_swapped,
    "multicast to fewer blocks": transfers.multicast_to_fewer_blocks,
    "multicast to wrong blocks": transfers.multicast_to_wrong_blocks,
    "release to the own block only": transfers.release_to_own_block_only,
    "expected bytes of the own part": transfers.expected_bytes_of_own_part,
    "cluster barrier removed": transfers.no_cluster_barrier,
    "inner half of a box": transfers.half_a_box(0),
    "outer half of a box": transfers.half_a_box(1),
    "swizzle of a map altered": transfers.map_change(transfers.other_swizzle),
    "stride of a map altered": transfers.map_change(transfers.other_stride),
    "fewer rows in a map": transfers.map_change(transfers.fewer_rows),
    "exchange between lanes removed": without(QUAD_EXCHANGE),
    "election removed": barriers.not_elected,
    "named barrier removed": without(BAR_SYNC),
    "arrival at a named barrier removed": without(BAR_ARRIVE),
    "vote of each thread for itself": barriers.own_vote,
    "wait for launches removed": without(GRID_DEPENDENCY_WAIT),
    "wait for launches behind an access": barriers.wait_for_launches_behind_access,
    "block barrier removed": without(SYNC_THREADS),
    "warp barrier removed": without(SYNC_WARP),
    "cluster instruction removed": without(*CLUSTER),
    "number of a named barrier altered": barriers.wrong_barrier_number,
    "too many threads of a named barrier": barriers.too_many_threads,
    "operand shifted": shifted_operand,
    "loop too short": loop_too_short,
    "loop too long": loop_too_long,
}
