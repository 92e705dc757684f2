import tilelang
from tilelang import autotuner


def test_the_published_names_are_there() -> None:
    space: dict[str, object] = {}
    exec("from tilelang.autotuner import *", space)
    assert {"autotune", "AutoTuner", "set_autotune_inputs", "gemm_configs"} <= set(space)
    assert autotuner.autotune is tilelang.autotune
    assert autotuner is tilelang.autotuner
