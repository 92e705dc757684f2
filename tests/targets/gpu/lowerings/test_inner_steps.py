"""Steps along K of which another statement loads the first one, or multiplies the last one."""

import pytest

from tilelang.targets.gpu.lowerings.inner_steps import inner_steps
from tilelang.targets.gpu.lowerings.mma_operand import ElementOperand


class Loops:
    """Runs the loops that it is given."""

    def loop(self, name, extent, body, *, start=0):
        assert "k_step" == name
        for step in range(start, extent):
            body(step)

    def short(self, value):
        return value


class Registers(ElementOperand):
    """An operand whose loads it keeps, each with where it goes."""

    def __init__(self, name, events, target="own"):
        self._name, self._events, self._target = name, events, target

    def fetch(self, step, *, tail):
        assert not tail
        self._events.append(f"load {self._name} {getattr(step, 'value', step)} to {self._target}")

    def loading_to(self, registers):
        return Registers(self._name, self._events, registers)


def events(steps, *, first, last):
    """What is done, in order."""
    found = []
    own = Registers("a", found), Registers("b", found)
    fragments = Registers("a", found, "first"), Registers("b", found, "first")

    def multiply(a, b, step):
        assert a._target == b._target
        found.append(f"multiply {getattr(step, 'value', step)} in {a._target}")

    inner_steps(Loops(), steps, own, fragments if first else None, ["last", "last"] if last else [], multiply)
    return [event for event in found if event.startswith(("multiply", "load a"))]


def test_each_step_is_loaded_before_the_one_before_it_is_multiplied():
    assert [
        "load a 0 to first",
        "load a 1 to own", "multiply 0 in first",
        "load a 2 to own", "multiply 1 in own",
        "load a 3 to last", "multiply 2 in own",
    ] == events(4, first=True, last=True)  # fmt: skip


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
@pytest.mark.parametrize(("first", "last"), [(True, False), (False, True), (True, True)])
def test_every_step_is_multiplied_once_but_for_one_that_goes_elsewhere(steps, first, last):
    if steps == 1 and first and last:
        return  # there is no such gemm
    found = events(steps, first=first, last=last)
    multiplied = [int(event.split()[1]) for event in found if event.startswith("multiply")]
    assert list(range(steps - last)) == multiplied
    to = {int(event.split()[2]): event.split()[-1] for event in found if event.startswith("load")}
    wanted = ["own"] * steps
    if first:
        wanted[0] = "first"
    if last:
        wanted[-1] = "last"
    assert wanted == [to[step] for step in range(steps)]


def test_a_gemm_of_one_step_that_goes_elsewhere_multiplies_nothing():
    assert ["load a 0 to last"] == events(1, first=False, last=True)
