from hip_text import assembly_of, function_of, hip_source, needs_clang

from tilelang.isa.intrinsic import Helper
from tilelang.targets.amd.isa.device_text import for_device

TWICE = Helper("twice", "static inline float twice(float x) { return x + x; }\n", headers=("<cmath>",))
FOUR_TIMES = Helper("four_times", "static inline float four_times(float x) { return twice(twice(x)); }\n", needs=(TWICE,))


@needs_clang
def test_functions_of_the_host_become_functions_of_the_device() -> None:
    helper = for_device(FOUR_TIMES)
    assert ("twice",) == tuple(need.name for need in helper.needs)
    assert () == helper.needs[0].headers
    assert "f:" in assembly_of(hip_source([helper], [function_of("f", "float", ["float"], "four_times(a[i])")]), "gfx942")


def test_each_helper_is_made_once() -> None:
    assert for_device(TWICE) is for_device(TWICE)
    assert "" == for_device(Helper("nothing", "")).text
