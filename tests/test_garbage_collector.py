"""When the garbage collector runs, and what it looks at."""

import gc
import sys
from collections.abc import Iterator

import pytest

from tilelang.garbage_collector import disabled, disabled_for_imports


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    """`conftest.py` freezes what the collection of tests made."""
    gc.unfreeze()
    yield
    gc.enable()
    gc.freeze()


@pytest.mark.parametrize("was_on", [True, False])
@pytest.mark.parametrize("context", [disabled, disabled_for_imports])
def test_the_collector_is_restored_after_errors(context: type, was_on: bool) -> None:
    (gc.enable if was_on else gc.disable)()
    with pytest.raises(ZeroDivisionError), context():
        assert not gc.isenabled()
        _ = 1 // 0
    assert gc.isenabled() is was_on


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="its collector has other generations")
def test_objects_of_imports_are_in_the_oldest_generation() -> None:
    with disabled_for_imports():
        made = [[] for _ in range(3)]  # type: ignore[var-annotated]
    assert any(each is made for each in gc.get_objects(generation=2))


def test_objects_that_the_user_froze_stay_frozen() -> None:
    gc.freeze()
    with disabled_for_imports():
        pass
    assert gc.get_freeze_count()
