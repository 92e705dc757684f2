from tilelang.performance.work import BlockWork, Unit


def test_shares_of_blocks_add_up() -> None:
    total, one, two = BlockWork(), BlockWork(duration=10.0, max_duration=10.0), BlockWork(duration=30.0, max_duration=30.0)
    one.cycles[Unit.MATRIX], two.cycles[Unit.MATRIX] = 2.0, 4.0
    for block in (one, two):
        total.add(block, 0.5)
    assert (3.0, 20.0, 30.0) == (total.cycles[Unit.MATRIX], total.duration, total.max_duration)
