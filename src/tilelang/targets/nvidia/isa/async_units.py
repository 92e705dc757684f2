"""The units of NVIDIA's GPUs that work on while the threads that started them go on.

Gives the `AsyncUnit`s `CP_ASYNC` (sm_80 on), `TMA_LOAD`, `TMA_STORE` and `WGMMA` (sm_90 on).

Source: PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy: Completion mechanisms", "Asynchronous
Warpgroup Level Matrix Instructions" and "Memory Consistency Model: Proxies".
"""

from __future__ import annotations

from tilelang.isa.instruction import AsyncUnit, Completion

CP_ASYNC = AsyncUnit("cp.async", Completion.GROUPS, per_thread=True, wait_call="T.ptx_wait_group(0)")
"""Copies of a few bytes from global to shared memory that each thread starts and waits for itself."""

TMA_LOAD = AsyncUnit("TMA load", Completion.BARRIER, async_proxy=True)
"""TMA loads to shared memory, whose bytes an mbarrier counts."""

TMA_STORE = AsyncUnit(
    "TMA store", Completion.GROUPS, reads_asynchronously=True, async_proxy=True, wait_call="T.tma_store_wait(0)"
)
"""TMA stores from shared memory, which one thread issues and waits for."""

WGMMA = AsyncUnit("wgmma", Completion.GROUPS, reads_asynchronously=True, async_proxy=True, wait_call="T.wait_wgmma(0)")
"""Matrix instructions of a warp group, which reads its operands in shared memory while they run."""
