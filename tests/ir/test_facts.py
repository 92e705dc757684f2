from tilelang.ir.facts import Facts


def test_facts_are_keys() -> None:
    assert 1 == len({Facts((("M", 16),)), Facts((("M", 16),))})
    assert Facts() != Facts(wide=True)
