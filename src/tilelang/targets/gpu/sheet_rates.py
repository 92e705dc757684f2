"""The rates of a GPU that has not been measured: what its data sheet says, and typical values of what no vendor states.

Latencies, shares of the peak that programs reach, and how units delay each other are of the order that
`benchmarks/model.py` measures on the GPU whose record has measured rates. Predictions by them are rough.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.targets.machine import Rates

_MEMORY_NS = 500  # until a load from device memory is complete
_CACHE_BYTES = 48  # of the cache of the device, per multiprocessor and cycle
_REACHED = 0.9  # share of a peak that programs reach


def sheet_rates(
    *,
    clock: float,
    matrix: int,
    multiprocessors: int,
    lanes: int,
    special: int,
    cache_bytes: int,
    functions: Mapping[str, tuple[int, int]],
    most_registers: int,
    matrix_by_warp: float = _REACHED,
    shared_bytes: int = 128,
) -> Rates:
    """The rates of a GPU by its data sheet; the arguments are the fields of `Rates`."""
    return Rates(
        clock=clock,
        matrix=matrix,
        matrix_by_group=_REACHED,
        matrix_by_warp=matrix_by_warp,
        matrix_sustained=0.8,
        lanes=lanes,
        lanes_by_group=1 / 3,
        special=special,
        conversions=lanes // 2,
        shared_bytes=shared_bytes,
        loaded_bytes=64,
        stored_bytes=32,
        cache_rate=_CACHE_BYTES * multiprocessors,
        cache_bytes=cache_bytes,
        memory_share=_REACHED,
        store_weight=1.0,
        memory_latency=_MEMORY_NS * 1e-9 * clock,
        shared_latency=30,
        arithmetic_latency=5,
        matrix_latency=60,
        matrix_restart=135,
        barrier=30,
        launch=3e-6,
        block=700,
        least_registers=32,
        most_registers=most_registers,
        schedulers=4,
        warps_per_group=1,
        shuffle_latency=25,
        box_copy_issue=30,
        first_box_copy=1.5,
        unit_norm=6.0,
        launch_norm=12.0,
        queueing=0.9,
        dirty_share=0.5,
        written_back=0.4,
        functions=functions,
    )
