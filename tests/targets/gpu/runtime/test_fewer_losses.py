import pytest

from tilelang.records import record
from tilelang.targets.gpu.runtime.fewer_losses import with_fewer_losses
from tilelang.targets.gpu.runtime.resources import Resources


@record
class Code:
    flags: tuple[str, ...]
    resources: dict[str, Resources]


WAITS = -1  # instead of a number of bytes: a kernel that spills none, and is serialized


class Compiler:
    """Kernels that spill so many bytes without flags, and so many with them."""

    def __init__(self, without: tuple[int, ...], saving: tuple[int, ...] = ()) -> None:
        self._spills = {False: without, True: saving}
        self.runs: list[tuple[str, ...]] = []

    def __call__(self, flags: tuple[str, ...]) -> Code:
        self.runs.append(flags)
        made = [Resources(255, 0, max(0, n), max(0, n), serialized=n == WAITS) for n in self._spills[bool(flags)]]
        return Code(flags, {f"kernel{n}": used for n, used in enumerate(made)})


FLAGS = ("-DSAVE", "-x")


@pytest.mark.parametrize(
    ("without", "saving", "kept"),
    [
        ((72,), (0,), FLAGS),
        ((72,), (64,), FLAGS),
        ((72,), (72,), ()),
        ((40,), (64,), ()),
        ((0, 72), (8, 0), FLAGS),  # of all kernels together
        ((0, 8), (72, 0), ()),
        ((WAITS,), (0,), FLAGS),
        ((WAITS,), (8,), FLAGS),
        ((WAITS,), (WAITS,), ()),
        ((8,), (WAITS,), ()),
        ((0, WAITS), (WAITS, WAITS), ()),
    ],
)
def test_what_loses_less_is_kept(without: tuple[int, ...], saving: tuple[int, ...], kept: tuple[str, ...]) -> None:
    compiler = Compiler(without, saving)
    assert kept == with_fewer_losses(compiler, lambda: FLAGS).flags
    assert [(), FLAGS] == compiler.runs


@pytest.mark.parametrize(("spilled", "flags"), [((0, 0), FLAGS), ((72,), ()), ((WAITS,), ())])
def test_what_loses_nothing_or_has_nothing_to_save_is_compiled_once(
    spilled: tuple[int, ...], flags: tuple[str, ...]
) -> None:
    compiler = Compiler(spilled)
    assert () == with_fewer_losses(compiler, lambda: flags).flags
    assert [()] == compiler.runs
