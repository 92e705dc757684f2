import dataclasses

import pytest

from tilelang.isa.instruction import AsyncUnit, Completion, Effect, ExecutionScope, Instruction
from tilelang.targets.machine import NOTHING
from tilelang.targets.nvidia.isa.catalogue import instructions
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_ARRIVE, MBARRIER_INIT, MBARRIER_WAIT

INSTRUCTIONS = instructions()


def test_defaults_of_a_record():
    record = Instruction("nop", {"cuda": "nop()"}, {}, lambda warp: None)
    assert (ExecutionScope.THREAD, None, None, Effect.NONE, NOTHING, None) == (
        record.execution_scope, record.result, record.async_unit, record.effect, record.needs, record.predicate
    )  # fmt: skip


def test_records_are_immutable():
    one = Instruction("nop", {"cuda": "nop()"}, {}, print)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "other"


def test_groups_of_a_unit_are_waited_for_by_an_instruction_of_the_same_unit():
    records = INSTRUCTIONS.values()
    units = {r.async_unit for r in records if r.async_unit is not None and r.async_unit.completion is Completion.GROUPS}
    assert units
    assert units == {r.async_unit for r in records if r.async_unit in units and r.effect & Effect.WAIT}


def test_properties_of_the_asynchronous_unit():
    lines = AsyncUnit("copies of lines", Completion.GROUPS, per_thread=True)
    matrix = AsyncUnit("matrix unit", Completion.GROUPS, reads_asynchronously=True)
    records = [Instruction("x", {}, {}, print, async_unit=unit) for unit in (None, lines, matrix)]
    assert [False, True, False] == [record.is_per_thread for record in records]
    assert [False, False, True] == [record.reads_asynchronously for record in records]


def test_threads_wait_in_an_instruction_whose_meaning_waits():
    assert MBARRIER_WAIT.waits
    assert not MBARRIER_ARRIVE.waits and not MBARRIER_INIT.waits
