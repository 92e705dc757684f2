"""When the garbage collector runs, and what it looks at."""

import ctypes
import gc
import sys
from collections.abc import Iterator

import examples_of
import pytest

from tilelang.garbage_collector import disabled, disabled_for_imports
from tilelang.ir.func import PrimFunc
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.targets.target import Target


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


def _programs() -> dict[str, PrimFunc]:
    kernels = examples_of.benchmark_programs()
    return {
        "gemm": kernels.gemm_program(1000, 777, 333),
        "attention": kernels.attention_program(1, 2, 256, 64, block_M=64, block_N=64, threads=128, causal=True),
        "add": examples_of.kernels("vector_add.py")["add"],  # its body is a single statement
    }


@pytest.mark.parametrize("target", [Target("cpu"), Target("cuda", "sm_80"), Target("cuda", "sm_90a")], ids=str)
@pytest.mark.parametrize("name", ["gemm", "attention", "add"])
def test_lowering_leaves_nothing_to_the_collector(name: str, target: Target) -> None:
    backend = target.family.backend()

    def lower(program: PrimFunc) -> None:
        backend.emit(run_passes(program, backend.passes, PassContext(target=target)))

    first, second = _programs()[name], _programs()[name]
    lower(first)  # imports
    gc.freeze()  # the collector need not look at what was made before
    with disabled():
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            lower(second)
            gc.collect()
            left = {f"{each.__module__}.{type(each).__qualname__}" for each in gc.garbage if _is_ours(each)}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
    assert set() == left


def _is_ours(each: object) -> bool:
    """Whether an object is of this package, and no type that ctypes makes for an array, which earlier tests left."""
    return str(getattr(each, "__module__", "")).startswith("tilelang.") and not isinstance(each, type(ctypes.Array))
