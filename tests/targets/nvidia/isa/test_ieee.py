from tilelang.isa.common.ieee import MODES, OPERATIONS
from tilelang.targets.nvidia.isa.ieee import IEEE


def test_every_operation_has_a_text_for_every_mode():
    assert {f"ieee_{operation}_{mode}" for operation in OPERATIONS for mode in MODES} == set(IEEE)


def test_texts_name_the_function_of_the_mode():
    assert ("__fdiv_rz({0}, {1})", "__ddiv_rz({0}, {1})") == tuple(t.text for t in IEEE["ieee_fdiv_rz"].values())
    assert {"float32"} == set(IEEE["ieee_frsqrt_rn"])
