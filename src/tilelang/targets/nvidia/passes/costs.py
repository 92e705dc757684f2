"""Cost model of the statements of a loop, for the schedule of a software pipeline.

Takes a statement and the rates of a machine, gives `Work` in cycles of one multiprocessor. Arithmetic of threads is
counted by its throughput, since several warps hide its latency; asynchronous gemms also by their latency, which a wait
exposes.
"""

from __future__ import annotations

import dataclasses
import math

from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import For, Stmt
from tilelang.ir.visit import walk
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.schedule.loop_graph import Work
from tilelang.schedule.prefetch import PrefetchCosts
from tilelang.schedule.statement_work import products, work_of_threads
from tilelang.targets.machine import Machine, MeasuredRates, Rates

_GEMM_ISSUE = 20  # cycles of the warps that issue a gemm
# Cycles of warpgroups that combine partial results of rows through shared memory after a barrier, which other warps do
# not hide: all wait. On an H200 MLA decode took 3 % less time with the sums of rows after the gemm of the values
_EXCHANGE = 100


def gemm_work(gemm: Gemm, rates: Rates) -> Work:
    """The work of a gemm that runs asynchronously.

    Where it reads an operand from registers, it takes their bandwidth from threads: on an H200 the arithmetic between
    two gemms of attention backward took 435 cycles beside such a gemm, and 205 without.
    """
    hinders = gemm.a.buffer.scope is Scope.FRAGMENT
    latency = math.ceil(rates.matrix_latency)
    return Work(_gemm_cycles(gemm, rates), asynchronous=True, issue=_GEMM_ISSUE, latency=latency, hinders=hinders)


def iteration_cycles(loop: For, rates: Rates) -> int:
    """The cycles of an iteration of a loop in program order: of its gemms, and of what threads compute between them.

    So two stages suffice for attention, beside room for asynchronous stores of results: that of 128 dimensions in tiles
    of 128x128 took 8 to 25 % less time on an H200 than with three.
    """
    gemms = sum(_gemm_cycles(stmt, rates) for stmt in walk(loop.body) if isinstance(stmt, Gemm))
    others = [stmt for stmt in flat_statements(loop.body) if not isinstance(stmt, Copy | Gemm)]
    return gemms + sum(thread_work(stmt, rates).cycles for stmt in others)


def stages_that_hide_loads(stage_bytes: int, cycles: int, rates: Rates) -> int:
    """The stages of a pipeline with which loads arrive in time, even where all multiprocessors load at once.

    Args:
        stage_bytes: Bytes of a stage.
        cycles: Cycles in which a stage is in use.
        rates: Rates of the machine.
    """
    return 1 + math.ceil(arrival_cycles(stage_bytes, rates) / max(cycles, 1))


def arrival_cycles(count: int, rates: Rates) -> float:
    """Cycles until a load of some bytes has arrived, where all multiprocessors load at once."""
    return rates.memory_latency * (1 + rates.queueing) + count / rates.loaded_bytes


def load_cycles(count: int, rates: Rates) -> int:
    """Cycles of a load of some bytes in a pipeline, with the part of the latency that its stages have to hide."""
    exposed = rates.gemm.exposed_latency if isinstance(rates, MeasuredRates) else 1.0
    return math.ceil(exposed * rates.memory_latency + count / rates.loaded_bytes)


def streaming_cycles(count: int, machine: Machine) -> float:
    """Cycles in which a multiprocessor's share of the bandwidth of device memory brings some bytes; 0 where unknown.

    Args:
        count: The bytes.
        machine: The machine, whose rates are known.
    """
    assert machine.rates is not None
    bytes_per_second = machine.memory_bandwidth * machine.rates.memory_share
    return count * machine.rates.clock * machine.multiprocessors / bytes_per_second if bytes_per_second else 0


def thread_work(stmt: Stmt, rates: Rates) -> Work:
    """The work of a statement that threads execute, which wait for the asynchronous gemms in it."""
    return work_of_threads(stmt, rates, lambda gemm: _gemm_cycles(gemm, rates))


def group_work(stmt: Stmt, rates: Rates, groups: int) -> Work:
    """The work of a statement that so many groups of warps execute, where no other warps hide their latencies."""
    return Work(math.ceil(thread_work(stmt, rates).cycles / min(1.0, groups * rates.lanes_by_group)))


def with_exchange(work: Work) -> Work:
    """The work of a reduction along columns that warpgroups divide."""
    return dataclasses.replace(work, cycles=work.cycles + _EXCHANGE)


def copy_work(tile: Buffer, rates: Rates) -> Work:
    """The work of an asynchronous copy that fills a tile."""
    return Work(0, issue=math.ceil((tile.bytes or 0) / rates.shared_bytes), prefetched=True)


def prefetch_costs(rates: Rates) -> PrefetchCosts:
    """What asynchronous copies cost threads."""
    return PrefetchCosts(rates.memory_latency, rates.barrier)


def rates_of(machine: Machine) -> Rates:
    """The rates of a machine, by its data sheet where they have not been measured."""
    if machine.rates is not None:
        return machine.rates
    if machine.data_sheet is None:
        raise CompilerBug(f"no figures of {machine.name}")
    return machine.data_sheet.rates


def _gemm_cycles(gemm: Gemm, rates: Rates) -> int:
    return 2 * products(gemm) // rates.matrix
