from tilelang.targets.gpu.runtime.resources import Resources


def test_what_few_kernels_have_is_absent_unless_given() -> None:
    assert (64, 1024, 0, 16, False, 0) == Resources(64, 1024, 0, 16)
