"""Who does what in a loop of consumers, for its timeline: what the producer loads, and the names of the partitions.

Takes the body of a loop with its load groups and the schedule of the launch; gives `ProducerLoad`s, and names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tilelang.schedule.explain import ProducerLoad
from tilelang.schedule.load_groups import LoadGroup
from tilelang.schedule.loop_body import LoopBody
from tilelang.targets.machine import Machine
from tilelang.targets.nvidia.passes.costs import arrival_cycles
from tilelang.targets.nvidia.schedule import Schedule


def producer_loads(
    body: LoopBody, load_groups: Iterable[LoadGroup], schedule: Schedule, machine: Machine
) -> tuple[ProducerLoad, ...]:
    """The loads of a loop in the order in which the producer issues them; none if the machine's rates are not known.

    Args:
        body: The statements of the consumers.
        load_groups: The loads of the loop.
        schedule: The schedule of the launch, with its stages.
        machine: The machine.
    """
    rates, made = machine.rates, list[ProducerLoad]()
    if rates is None:
        return ()
    for group in load_groups:
        arrival = math.ceil(arrival_cycles(group.bytes, rates))
        for copy in group.copies:
            readers = frozenset(number for number, _, _ in body.storages.get(copy.dst.buffer.storage, ()))
            label = f"line {copy.loc.line}" if copy.loc.line else f"T.copy to '{copy.dst.buffer.name}'"
            cycles = math.ceil(group.bytes_of(copy) / rates.loaded_bytes)
            made.append(ProducerLoad(label, readers, cycles, arrival, schedule.stages))
    return tuple(made)


def partition_names(schedule: Schedule) -> tuple[str, ...]:
    """The name of the consumers that run a loop together, and of one that computes another tile meanwhile."""
    if schedule.ping_pong:
        return tuple(f"consumer {number}" for number in range(1, schedule.consumers + 1))
    return ("consumer",) if schedule.consumers == 1 else (f"consumers 1-{schedule.consumers}",)
