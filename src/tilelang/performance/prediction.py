"""The time of a program from the work of its launches: what bounds it, and how much each part would take by itself."""

from __future__ import annotations

import math
from collections import defaultdict

from tilelang.ir.buffer import Buffer
from tilelang.performance.registers import blocks_at_once
from tilelang.performance.work import LaunchWork
from tilelang.records import record
from tilelang.targets.machine import Machine, Rates

LATENCY = "latency"
MEMORY = "device memory"
CACHE = "the cache"
POWER = "matrix units"
LAUNCH = "launches"


@record
class Prediction:
    """The time that a kernel is expected to take.

    Attributes:
        seconds: From the start of the first launch to the end of the last one, with nothing in the caches.
        bound: What limits it: the part that would take longest by itself.
        parts: Seconds that each part would take by itself, the longest first.
        launches: The same of each launch, where there are several.
        data_sheet: The device by whose data sheet this is, as nothing was measured on such a machine; else empty.
    """

    seconds: float
    bound: str
    parts: tuple[tuple[str, float], ...]
    launches: tuple[Prediction, ...] = ()
    data_sheet: str = ""

    def __str__(self) -> str:
        return f"bound by {self.bound}, predicted {duration(self.seconds)}"


def duration(seconds: float) -> str:
    """A time with a unit that suits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def predicted(launches: list[LaunchWork], machine: Machine, rates: Rates) -> Prediction:
    """The time of launches one after another."""
    total: defaultdict[str, float] = defaultdict(float)
    seconds = 0.0
    for launch in launches:
        parts = _seconds_of_parts(launch, machine, rates)
        seconds += _launch_seconds(launch, parts, rates) + rates.launch
        for name, time in parts.items():
            total[name] += time
        total[LAUNCH] += rates.launch
    ordered = tuple(sorted(total.items(), key=lambda part: -part[1]))
    each = tuple(predicted([launch], machine, rates) for launch in launches) if len(launches) > 1 else ()
    return Prediction(seconds, ordered[0][0] if ordered else LAUNCH, ordered, each)


def _launch_seconds(launch: LaunchWork, parts: dict[str, float], rates: Rates) -> float:
    """Seconds of a launch: its parts overlap, but for the first loads and the last stores of blocks."""
    memory = parts[MEMORY]
    inside = {name: time for name, time in parts.items() if name != MEMORY}
    latency = inside.pop(LATENCY)
    waiting = latency * launch.block.memory_stalls / launch.block.duration if launch.block.duration else 0.0
    chip = _p_norm([latency, _p_norm(list(inside.values()), rates.unit_norm)], rates.launch_norm)
    # loads take longer the busier memory is: solves t = chip + waiting * rates.queueing * memory / t
    chip = (chip + math.sqrt(chip * chip + 4 * waiting * rates.queueing * memory)) / 2
    ramp = min(launch.block.max_duration, rates.block + 2 * rates.memory_latency) / rates.clock
    return _p_norm([chip, memory + ramp], rates.launch_norm)


def _p_norm(times: list[float], norm: float) -> float:
    """The time of parts that overlap."""
    longest = max(times, default=0.0)
    if not longest:
        return 0.0
    return float(longest * math.fsum((time / longest) ** norm for time in times) ** (1 / norm))


def _seconds_of_parts(launch: LaunchWork, machine: Machine, rates: Rates) -> dict[str, float]:
    """Seconds of each part of a launch."""
    block, processors = launch.block, machine.multiprocessors
    resident = blocks_at_once(launch.threads, launch.shared_bytes, launch.registers, machine)
    full, rest = divmod(launch.blocks, processors * resident)
    left = -(-rest // processors)  # blocks of the busiest multiprocessor in the last wave
    rounds = full * resident + left
    parts = {unit.value: rounds * cycles / rates.clock for unit, cycles in block.cycles.items()}
    waves = full + bool(rest)
    parts[LATENCY] = max(block.max_duration, waves * block.duration) / rates.clock
    sustained = launch.blocks * block.matrix_cycles / processors / rates.matrix_sustained / rates.clock
    if sustained:
        parts[POWER] = max(parts.get(POWER, 0.0), sustained)
    parts[CACHE] = launch.blocks * sum(block.loaded.values()) / rates.cache_rate / rates.clock
    parts[MEMORY] = _memory_bytes(launch, rates) / (machine.memory_bandwidth * rates.memory_share)
    return parts


def _memory_bytes(launch: LaunchWork, rates: Rates) -> float:
    """Bytes that pass between device memory and its cache.

    What is loaded repeatedly comes from there once. The cache holds results of earlier work, which are written back
    when others need their place, and some of the results of this launch stay there.
    """
    loaded = sum(min(launch.blocks * size, _size(buffer)) for buffer, size in launch.block.loaded.items())
    stored = sum(launch.blocks * size for size in launch.block.stored.values())
    kept = rates.cache_bytes * rates.dirty_share
    return loaded + stored * rates.store_weight + min((loaded + stored) * rates.written_back, kept) - min(stored, kept)


def _size(buffer: Buffer) -> float:
    size = buffer.bytes
    return math.inf if size is None else size
