from tunable import FakeKernel, FakeSubject, configs, twice

from tilelang.tune.measure import measure
from tilelang.tune.progress import Progress
from tilelang.tune.settings import Settings


def test_kernels_are_checked_and_timed() -> None:
    subject = FakeSubject(lambda x: FakeKernel(twice if x else lambda a: a * 3, 0.001))
    kernels = [(config, subject.kernel(config)) for config in configs(0, 1, 2, 3)]
    with Progress("fake") as progress:
        found = measure(subject, kernels, Settings(warmup=1, rep=5), progress, None)  # type: ignore[arg-type]
    assert {1, 2, 3} == {each.config["x"] for each in found.measured}
    assert [0] == [each.config["x"] for each in found.rejected]
    assert "each other (3 configurations agree)" == found.compared
