import pytest

from tilelang.performance.chain import by_few_warp_groups, softmax_instructions, step_cycles, thread_cycles
from tilelang.targets.target import parse_target

MACHINE = parse_target({"kind": "cuda", "arch": "sm_90a"}).machine
RATES = MACHINE.rates


def attention(rows: int, keys: int, dim: int, *, searches: bool) -> float:
    """Seconds of full attention of 128 heads of 4096 queries and keys."""
    assert RATES is not None and MACHINE.multiprocessors
    threads = thread_cycles(rows * keys, *softmax_instructions(searches=searches), RATES)
    step = step_cycles(4 * rows * keys * dim, threads, rows // 64, RATES)
    tiles = -(-128 * -(-4096 // rows) // MACHINE.multiprocessors)
    return tiles * -(-4096 // keys) * step / RATES.clock


@pytest.mark.parametrize(
    ("rows", "keys", "dim", "searches", "measured"),
    [
        (128, 128, 128, True, 1.646e-3),
        (192, 64, 128, False, 1.495e-3),
        (128, 128, 96, True, 1.400e-3),
        (192, 96, 96, False, 1.216e-3),
    ],
)
def test_times_of_attention_that_were_measured(
    rows: int, keys: int, dim: int, searches: bool, measured: float
) -> None:
    assert 0.93 < attention(rows, keys, dim, searches=searches) / measured < 1.05


def test_threads_take_longer_where_few_warp_groups_take_turns() -> None:
    assert RATES is not None
    searching, plain = (thread_cycles(1 << 14, *softmax_instructions(searches=each), RATES) for each in (True, False))
    assert plain < searching
    times = [step_cycles(1 << 22, searching, count, RATES) for count in (1, 2, 3, 4)]
    assert times[0] > times[1] > times[2] == times[3]
    assert 1.0 == by_few_warp_groups(1.0, 3)
