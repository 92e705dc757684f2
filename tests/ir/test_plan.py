"""What operators keep of a decision."""

from tilelang.ir.plan import Plan


def test_a_plan_that_decides_nothing_has_nothing_to_show():
    assert "" == str(Plan())
