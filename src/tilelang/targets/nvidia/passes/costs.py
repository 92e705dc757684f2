"""Cost model of the statements of a loop, for the schedule of a software pipeline.

Takes a statement, gives `Work` in cycles of one multiprocessor, by the figures of `targets.nvidia.machines`. Arithmetic
of threads is counted by its throughput, since several warps hide its latency; asynchronous gemms also by their latency,
which a wait exposes.

Sources: CUDA C++ Programming Guide, "Arithmetic Instructions", throughput of native instructions for compute capability
9.0: 128 results per cycle in general, 16 of special functions; NVIDIA H100 Tensor Core GPU Architecture: 4096 FLOP per
cycle and multiprocessor for dense 16-bit operands by wgmma; NVIDIA A100 Tensor Core GPU Architecture: 2048 by mma, of
which an H100 does about as many. Latency: attention on an H200, where warps waited 45 to 60 cycles
for a gemm whose last instruction they had just issued.
"""

from __future__ import annotations

import dataclasses
import math

from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import int_const
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import For, Stmt
from tilelang.ir.visit import walk
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.schedule.loop_graph import Work
from tilelang.schedule.prefetch import PrefetchCosts
from tilelang.schedule.statement_work import instructions, products
from tilelang.targets.machine import Machine, Rates
from tilelang.targets.nvidia.machines import (
    MMA_FLOP_PER_CYCLE,
    RESULTS_PER_CYCLE,
    WGMMA_FLOP_PER_CYCLE,
    WGMMA_LATENCY,
)

_GEMM_ISSUE = 20  # cycles of the warps that issue a gemm
# Cycles of warpgroups that combine partial results of rows through shared memory after a barrier, which other warps do
# not hide: all wait. On an H200 MLA decode took 3 % less time with the sums of rows after the gemm of the values
_EXCHANGE = 100
# M * N * K * bits of a gemm that is too short to hide another warpgroup's wait: 64x128 takes 256 cycles or less. At
# 4096^3 tiles of 128x128x32 reached 0.85 of cuBLAS with two warpgroups, 0.97 to 1.00 with one.
_SHORT_GEMM = 64 * 128 * 64 * 16


def gemm_work(gemm: Gemm) -> Work:
    """The work of a gemm that runs asynchronously.

    Where it reads an operand from registers, it takes their bandwidth from threads: on an H200 the arithmetic between
    two gemms of attention backward took 435 cycles beside such a gemm, and 205 without.
    """
    hinders = gemm.a.buffer.scope is Scope.FRAGMENT
    cycles = _gemm_cycles(gemm, WGMMA_FLOP_PER_CYCLE)
    return Work(cycles, asynchronous=True, issue=_GEMM_ISSUE, latency=WGMMA_LATENCY, hinders=hinders)


def iteration_cycles(loop: For) -> int:
    """The cycles of an iteration of a loop in program order: of its gemms, and of what threads compute between them.

    So two stages suffice for attention, beside room for asynchronous stores of results: that of 128 dimensions in tiles
    of 128x128 took 8 to 25 % less time on an H200 than with three.
    """
    gemms = sum(_gemm_cycles(stmt, WGMMA_FLOP_PER_CYCLE) for stmt in walk(loop.body) if isinstance(stmt, Gemm))
    others = [stmt for stmt in flat_statements(loop.body) if not isinstance(stmt, Copy | Gemm)]
    return gemms + sum(thread_work(stmt).cycles for stmt in others)


def stages_that_hide_loads(stage_bytes: int, cycles: int, rates: Rates) -> int:
    """The stages of a pipeline with which loads arrive in time, even where all multiprocessors load at once.

    Args:
        stage_bytes: Bytes of a stage.
        cycles: Cycles in which a stage is in use.
        rates: Rates of the machine.
    """
    loading = rates.memory_latency * (1 + rates.queueing) + stage_bytes / rates.loaded_bytes
    return 1 + math.ceil(loading / max(cycles, 1))


def streaming_cycles(count: int, machine: Machine) -> float:
    """Cycles in which a multiprocessor's share of the bandwidth of device memory brings some bytes; 0 where unknown.

    Args:
        count: The bytes.
        machine: The machine, whose rates are known.
    """
    assert machine.rates is not None
    bytes_per_second = machine.memory_bandwidth * machine.rates.memory_share
    return count * machine.rates.clock * machine.multiprocessors / bytes_per_second if bytes_per_second else 0


def thread_work(stmt: Stmt, flop: int = WGMMA_FLOP_PER_CYCLE) -> Work:
    """The work of a statement that threads execute.

    Args:
        stmt: The statement.
        flop: What tensor cores do per cycle for gemms that threads wait for.
    """
    count = instructions(stmt, lambda gemm: _gemm_cycles(gemm, flop) * RESULTS_PER_CYCLE)
    return Work(max(1, math.ceil(count / RESULTS_PER_CYCLE)))


def with_exchange(work: Work) -> Work:
    """The work of a reduction along columns that warpgroups divide."""
    return dataclasses.replace(work, cycles=work.cycles + _EXCHANGE)


def warp_work(stmt: Stmt) -> Work:
    """The work of a statement whose gemms are done by warps, by mma."""
    return thread_work(stmt, MMA_FLOP_PER_CYCLE)


def copy_work(tile: Buffer, machine: Machine) -> Work:
    """The work of an asynchronous copy that fills a tile."""
    return Work(0, issue=math.ceil((tile.bytes or 0) / _rates(machine).shared_bytes), prefetched=True)


def prefetch_costs(machine: Machine) -> PrefetchCosts:
    """What asynchronous copies cost threads."""
    rates = _rates(machine)
    return PrefetchCosts(rates.memory_latency, rates.barrier)


def _rates(machine: Machine) -> Rates:
    """The rates of a machine, by its data sheet where they have not been measured."""
    if machine.rates is not None:
        return machine.rates
    if machine.data_sheet is None:
        raise CompilerBug(f"no figures of {machine.name}")
    return machine.data_sheet.rates


def _gemm_cycles(gemm: Gemm, flop: int) -> int:
    return 2 * products(gemm) // flop


def is_short_gemm(gemm: Gemm, warpgroups: int) -> bool:
    """Whether the other warpgroups finish their shares of a gemm before a warpgroup can issue its next one."""
    work = math.prod(int_const(size) or 0 for size in gemm.sizes) * gemm.operands[0].bits
    return work * (warpgroups - 1) <= _SHORT_GEMM * warpgroups
