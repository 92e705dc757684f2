import pytest

from tilelang.targets.amd.isa.save_registers import ITERATIONS, RECOMPUTE, REMATERIALIZE
from tilelang.targets.gpu.isa.save_registers import DEFINE
from tilelang.targets.nvidia.isa.thread_index import THREAD_INDEX


@pytest.mark.parametrize("helper", [ITERATIONS, RECOMPUTE, REMATERIALIZE, THREAD_INDEX.helpers["cuda"]])
def test_texts_of_all_vendors_heed_the_macro_that_the_flag_defines(helper) -> None:
    assert DEFINE.removeprefix("-D") in helper.text
