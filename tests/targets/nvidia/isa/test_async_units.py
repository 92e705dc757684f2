"""What the units of NVIDIA's GPUs that work beside the threads say of themselves."""

import pytest

from tilelang.isa.instruction import Completion
from tilelang.targets.nvidia.isa.async_units import CP_ASYNC, TMA_LOAD, TMA_STORE, WGMMA
from tilelang.targets.nvidia.isa.catalogue import instructions


def test_only_copies_of_the_threads_themselves_need_no_proxy_fence():
    assert [False, True, True, True] == [unit.async_proxy for unit in (CP_ASYNC, TMA_LOAD, TMA_STORE, WGMMA)]


def test_what_threads_wait_for_themselves_is_not_read_late():
    assert [True, False, False, False] == [unit.per_thread for unit in (CP_ASYNC, TMA_LOAD, TMA_STORE, WGMMA)]
    assert [False, False, True, True] == [unit.reads_asynchronously for unit in (CP_ASYNC, TMA_LOAD, TMA_STORE, WGMMA)]


@pytest.mark.parametrize("unit", [CP_ASYNC, TMA_LOAD, TMA_STORE, WGMMA])
def test_every_unit_has_instructions(unit):
    assert any(record.async_unit is unit for record in instructions().values())
    assert (unit is TMA_LOAD) == (unit.completion is Completion.BARRIER)
