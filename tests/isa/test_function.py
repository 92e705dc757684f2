from tilelang.isa.function import REQUIRED, Parameter, ParameterKind


def test_a_parameter_is_required_unless_it_has_a_default():
    assert REQUIRED is Parameter("x", ParameterKind.VALUE).default
    assert 3 == Parameter("x", ParameterKind.VALUE, default=3).default


def test_every_kind_has_a_description():
    assert all(len(kind.value) > 10 for kind in ParameterKind)
