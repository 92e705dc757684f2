from tilelang.isa.common.ieee import MODES, OPERATIONS
from tilelang.targets.cpu.isa.ieee import IEEE


def test_every_operation_has_a_text_for_every_mode():
    assert {f"ieee_{operation}_{mode}" for operation in OPERATIONS for mode in MODES} == set(IEEE)


def test_texts_name_the_function_of_the_mode():
    assert "tl::ieee_fdiv<FE_TOWARDZERO>({0}, {1})" == IEEE["ieee_fdiv_rz"]["float64"].text
