import pytest

from tilelang.errors import OptionError
from tilelang.tune.settings import Settings


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 0}, "autotune: trials must be a positive number or None for all, got 0"),
        ({"executor": 3}, "autotune: executor must be a concurrent.futures.Executor, got 3"),
        ({"warmup": 0}, "autotune: warmup must be a positive number of milliseconds, got 0"),
        ({"early_stop_factor": 0.5}, "autotune: early_stop_factor must be a number of at least 1, got 0.5"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        Settings(**options)  # type: ignore[arg-type]
    assert message == caught.value.message
