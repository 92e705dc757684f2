import numpy as np
import pytest
from warp_alone import WarpAlone, run

from tilelang.dtypes import as_dtype
from tilelang.errors import DeviceAssertError, ProgramError, SimulationError
from tilelang.targets.nvidia.isa.debug import (
    CLOCK64,
    GLOBAL_TIMER,
    NANOSLEEP,
    TRAP,
    assertion,
    print_values,
    string_literal,
)

LANES = np.arange(32)


def test_every_lane_that_gets_there_prints_its_line():
    warp = WarpAlone(LANES < 2)
    record = print_values("%d of %.2f (100%%) %5llu\n", [as_dtype("int8"), as_dtype("float16"), as_dtype("uint64")])
    run(record, warp, LANES, LANES.astype(np.float16) / 4, np.uint64(7))
    assert ["0 of 0.00 (100%)     7", "1 of 0.25 (100%)     7"] == warp.lines
    expected = r'printf("%lld of %.2f (100%%) %5llu\n", (long long)(a), (double)(b), (long long)(c))'
    assert expected == record.spell["cuda"].format("a", "b", "c")


def test_a_format_takes_as_many_values_as_there_are():
    with pytest.raises(ProgramError, match="takes 1 values, not 2"):
        print_values("%d", [as_dtype("int32")] * 2)


def test_texts_survive_templates_and_c_strings():
    assert '"a \\"b\\" {c} \\\\ \\n"' == string_literal('a "b" {c} \\ \n').format()


def test_an_assertion_stops_where_a_lane_disagrees():
    record = assertion("x must be small", "user.py", 7)
    run(record, WarpAlone(LANES < 4), LANES < 4)
    with pytest.raises(DeviceAssertError, match="x must be small"):
        run(record, WarpAlone(), LANES < 4)
    assert 'tl_assert(x < 3, "x must be small", "user.py", 7)' == record.spell["cuda"].format("x < 3")


def test_a_trap_stops_whoever_gets_there():
    run(TRAP, WarpAlone(np.zeros(32, bool)))
    with pytest.raises(SimulationError, match="trap"):
        run(TRAP, WarpAlone())


@pytest.mark.parametrize("clock", [CLOCK64, GLOBAL_TIMER])
def test_clocks_advance(clock):
    warp = WarpAlone()
    first, second = run(clock, warp), run(clock, warp)
    assert (second > first).all()
    assert clock.result.numpy == first.dtype


def test_sleeping_ends():
    assert run(NANOSLEEP, WarpAlone(), 100) is None
