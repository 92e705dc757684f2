from tilelang.ir.specialization import Specialization


def test_specializations_are_hashable() -> None:
    assert 1 == len({Specialization((("M", 16),)), Specialization((("M", 16),))})
    assert Specialization() != Specialization(wide=True)
