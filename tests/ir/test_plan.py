"""Plans of lowerings."""

from tilelang.ir.plan import Plan


def test_an_empty_plan_has_no_text():
    assert "" == str(Plan())


def test_work_of_a_plan_without_decisions_waits_for_that_of_others():
    assert not Plan().continues(Plan())
