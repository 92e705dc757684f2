"""The order of matrix instructions by which one set of registers serves all steps along K."""

import itertools

import pytest

from tilelang.isa.instruction import Instruction
from tilelang.lowering.regions import ZERO
from tilelang.targets.gpu.lowerings.row_order import HeldRows, RowOrder


class Loops:
    """Runs the loops that it is given, and keeps what is emitted."""

    def __init__(self):
        self.build, self.events = self, []

    def loop(self, name, extent, body, *, start=0):
        del name
        for i in range(start, extent):
            body(i)

    def short(self, value):
        return value

    def emit(self, stmt):
        assert stmt.routine is BARRIER
        self.events.append("|")


class Registers:
    """An operand of some instructions, whose loads it keeps."""

    def __init__(self, name, count, events):
        self._name, self._count, self._events = name, count, events

    def fetch(self, step, *, tail):
        assert not tail
        for atom in range(self._count):
            self.fetch_atom(atom, step)

    def fetch_atom(self, atom, step):
        atom, step = (0 if value is ZERO else int(getattr(value, "value", value)) for value in (atom, step))
        self._events.append((self._name, atom, step))


BARRIER = Instruction("barrier", {}, {}, lambda warp: None)
SIZES = list(itertools.product((1, 2, 4), (1, 2, 4), (2, 3, 4)))


def events(rows, columns, steps, held):
    loops = Loops()

    def multiply(i, j):
        loops.events.append(tuple(int(getattr(index, "value", index)) for index in (i, j)))

    operands = (Registers(name, count, loops.events) for name, count in (("a", rows), ("b", columns)))
    RowOrder(loops, *operands, (rows, columns), multiply, BARRIER).steps(steps, held)
    return loops.events


@pytest.mark.parametrize("held", HeldRows)
@pytest.mark.parametrize(("rows", "columns", "steps"), SIZES)
def test_each_instruction_reads_both_operands_of_each_step(rows, columns, steps, held):
    loaded, done = {}, []
    for event in events(rows, columns, steps, held):
        if event == "|":
            continue
        if isinstance(event[0], str):
            name, atom, step = event
            loaded[name, atom] = step
        else:
            i, j = event
            assert loaded["a", i] == loaded["b", j]
            done.append((loaded["a", i], i, j))
    assert sorted(done) == list(itertools.product(range(steps), range(rows), range(columns)))


@pytest.mark.parametrize("held", HeldRows)
@pytest.mark.parametrize(("rows", "columns", "steps"), SIZES)
def test_loads_stay_where_they_are_among_multiplications(rows, columns, steps, held):
    made = events(rows, columns, steps, held)
    for place, event in enumerate(made[1:], 1):
        if event != "|" and made[place - 1] != "|":
            assert isinstance(event[0], str) == isinstance(made[place - 1][0], str) or not multiplied(made[:place])


def multiplied(made):
    return any(event != "|" and not isinstance(event[0], str) for event in made)


@pytest.mark.parametrize(("rows", "columns", "steps"), SIZES)
def test_a_row_is_loaded_when_the_one_before_has_been_read(rows, columns, steps):
    """Of A, then, no two rows are needed at once."""
    last = None
    for event in events(rows, columns, steps, HeldRows.ONE):
        if event[0] == "a":
            last = event[1]
        elif event != "|" and not isinstance(event[0], str):
            assert last == event[0]


def test_what_is_loaded_within_a_row_has_instructions_of_others_to_complete():
    made = [event for event in events(2, 2, 2, HeldRows.ALL) if event != "|"]
    assert [
        ("a", 0, 0), ("a", 1, 0), ("b", 0, 0), ("b", 1, 0),
        (0, 0), (0, 1), ("a", 0, 1), (1, 0), ("b", 0, 1), (1, 1), ("a", 1, 1), ("b", 1, 1),
        (0, 0), (0, 1), (1, 0), (1, 1),
    ] == made  # fmt: skip
