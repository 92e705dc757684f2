from tilelang.performance.prediction import Prediction, duration, predicted
from tilelang.performance.work import BlockWork, LaunchWork, Unit
from tilelang.targets.nvidia.machines import MACHINES

MACHINE = MACHINES["sm_90a"]
RATES = MACHINE.rates
assert RATES is not None


def launch(blocks: int, **work: float) -> LaunchWork:
    block = BlockWork(duration=work.get("duration", 1000.0), max_duration=work.get("duration", 1000.0))
    block.cycles[Unit.ISSUE] = work.get("issue", 100.0)
    return LaunchWork(block, blocks, 128, 0, 32)


def test_a_second_wave_takes_as_long_as_the_first() -> None:
    once, twice = (predicted([launch(count)], MACHINE, RATES).seconds for count in (132 * 16, 132 * 32))
    assert 1.9 < (twice - RATES.launch) / (once - RATES.launch) < 2.1


def test_units_that_many_blocks_share_bound_the_time() -> None:
    found = predicted([launch(132 * 16, issue=1000.0)], MACHINE, RATES)
    assert "instructions" == found.bound
    assert found.seconds > 16 * 1000 / RATES.clock


def test_launches_follow_each_other() -> None:
    one, two = (predicted([launch(1)] * count, MACHINE, RATES) for count in (1, 2))
    assert abs(two.seconds - 2 * one.seconds) < 1e-12
    assert ((), (one, one)) == (one.launches, two.launches)


def test_the_text_names_the_bound_and_the_time() -> None:
    assert "bound by latency, predicted 41 us" == str(Prediction(41e-6, "latency", (("latency", 41e-6),)))
    assert ["1.5 us", "2.35 ms", "1 s"] == [duration(time) for time in (1.5e-6, 2.352e-3, 1.0)]
