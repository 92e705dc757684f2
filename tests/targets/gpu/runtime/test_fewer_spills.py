import pytest

from tilelang.records import record
from tilelang.targets.gpu.runtime.fewer_spills import with_fewer_spills
from tilelang.targets.gpu.runtime.resources import Resources


@record
class Code:
    flags: tuple[str, ...]
    resources: dict[str, Resources]


class Compiler:
    """Kernels that spill so many bytes without flags, and so many with them."""

    def __init__(self, without: tuple[int, ...], saving: tuple[int, ...] = ()) -> None:
        self._spills = {False: without, True: saving}
        self.runs: list[tuple[str, ...]] = []

    def __call__(self, flags: tuple[str, ...]) -> Code:
        self.runs.append(flags)
        spills = self._spills[bool(flags)]
        return Code(flags, {f"kernel{n}": Resources(255, 0, spilled, spilled) for n, spilled in enumerate(spills)})


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
    ],
)
def test_what_spills_less_is_kept(without: tuple[int, ...], saving: tuple[int, ...], kept: tuple[str, ...]) -> None:
    compiler = Compiler(without, saving)
    assert kept == with_fewer_spills(compiler, lambda: FLAGS).flags
    assert [(), FLAGS] == compiler.runs


@pytest.mark.parametrize(("spilled", "flags"), [((0, 0), FLAGS), ((72,), ())])
def test_what_does_not_spill_or_has_nothing_to_save_is_compiled_once(
    spilled: tuple[int, ...], flags: tuple[str, ...]
) -> None:
    compiler = Compiler(spilled)
    assert () == with_fewer_spills(compiler, lambda: flags).flags
    assert [()] == compiler.runs
