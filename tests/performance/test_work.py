from tilelang.performance.work import BlockWork, Unit


def test_shares_of_blocks_add_up() -> None:
    total, one, two = BlockWork(), BlockWork(alone=10.0, longest=10.0), BlockWork(alone=30.0, longest=30.0)
    one.cycles[Unit.MATRIX], two.cycles[Unit.MATRIX] = 2.0, 4.0
    for block in (one, two):
        total.add(block, 0.5)
    assert (3.0, 20.0, 30.0) == (total.cycles[Unit.MATRIX], total.alone, total.longest)
