import dataclasses

import pytest

from tilelang.isa.instruction import Effect, Group, Instruction, Timeline
from tilelang.targets.nvidia.isa.catalogue import INSTRUCTIONS
from tilelang.targets.target import Feature


def test_what_a_record_does_not_say_is_the_plain_case():
    record = Instruction("nop", {"cuda": "nop()"}, {}, lambda warp: None)
    assert (Group.THREAD, None, Timeline.IN_ORDER, Effect.NONE, Feature.NONE, None) == (
        record.group, record.result, record.timeline, record.effect, record.needs, record.predicate
    )  # fmt: skip


def test_records_do_not_change():
    one = Instruction("nop", {"cuda": "nop()"}, {}, print)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "other"


@pytest.mark.parametrize("name", sorted(INSTRUCTIONS))
def test_work_on_a_queue_is_waited_for_by_an_instruction_of_the_same_queue(name):
    timeline = INSTRUCTIONS[name].timeline
    if timeline not in (Timeline.IN_ORDER, Timeline.TMA_LOAD):  # loads of tensors end on barriers
        assert any(r.timeline is timeline and r.effect & Effect.WAIT for r in INSTRUCTIONS.values())
