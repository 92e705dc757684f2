"""Plans of lowerings."""

from tilelang.ir.plan import Plan


def test_an_empty_plan_has_no_text():
    assert "" == str(Plan())
