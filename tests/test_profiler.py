from tilelang import profiler
from tilelang.profile.timer import do_bench


def test_the_published_names_are_there() -> None:
    assert do_bench is profiler.do_bench
    assert {"Auto", "Integer", "Uniform", "Normal", "Randn", "Zero", "One"} == set(
        profiler.TensorSupplyType.__members__
    )
    assert "Profiler" == profiler.Profiler.__name__
