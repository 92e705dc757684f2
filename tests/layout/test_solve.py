import pytest
from layouts import drop_dim
from warps import blocked

from tilelang.errors import Loc
from tilelang.layout.constraints import AccessLayout, Constraint, FixedLayout, LayoutChoice, Reason, SharedLayout
from tilelang.layout.digits import DigitMap, Mode, identity
from tilelang.layout.shared_memory import padded
from tilelang.layout.solve import solve
from tilelang.layout.thread_values import Fragment, digit, fragment, replicated
from tilelang.layout.xor_swizzle import swizzled


def accumulator(m: int, n: int, warps: int) -> Fragment:
    """What `mma` leaves, warps below each other."""
    value = [digit(2, 0, 1), digit(2, 8, 0), digit(n // 8, 0, 8), digit(m // 16 // warps, 16 * warps, 0)]
    return fragment((m, n), [digit(4, 0, 2), digit(8, 1, 0), digit(warps, 16, 0)], value)


def operand(m: int, k: int, warps: int) -> Fragment:
    """What `mma` takes as A."""
    value = [
        digit(2, 0, 1),
        digit(2, 8, 0),
        digit(2, 0, 8),
        digit(k // 16, 0, 16),
        digit(m // 16 // warps, 16 * warps, 0),
    ]
    return fragment((m, k), [digit(4, 0, 2), digit(8, 1, 0), digit(warps, 16, 0)], value)


def reason(text: str, line: int) -> Reason:
    return Reason(text, Loc("kernel.py", line))


def uses(loop: str, line: int, *accesses: tuple[str, DigitMap], reads: tuple[str, ...] = ()) -> list[Constraint]:
    return [AccessLayout(var, loop, access, reason("T.Parallel", line), writes=var not in reads) for var, access in accesses]


ROWS = drop_dim((64, 128), 1)
SCORES = identity((64, 128))
VECTOR = identity((64,))
ATTENTION: list[Constraint] = [
    FixedLayout("S", accumulator(64, 128, 4), reason("T.gemm accumulates in it", 31)),
    FixedLayout("O", accumulator(64, 64, 4), reason("T.gemm accumulates in it", 44)),
    FixedLayout("P", operand(64, 128, 4), reason("T.gemm reads it", 44)),
    *uses("max", 36, ("m", ROWS), ("S", SCORES), reads=("S",)),
    *uses("exp", 39, ("S", SCORES), ("m", ROWS), reads=("m",)),
    *uses("cast", 40, ("P", SCORES), ("S", SCORES), reads=("S",)),
    *uses("scale", 41, ("scale", VECTOR), ("m", VECTOR), ("m_prev", VECTOR), reads=("m", "m_prev")),
    *uses("keep", 35, ("m_prev", VECTOR), ("m", VECTOR), reads=("m",)),
    *uses("rescale", 47, ("O", identity((64, 64))), ("scale", drop_dim((64, 64), 1)), reads=("scale",)),
]


def test_attention_needs_no_conversion() -> None:
    found = solve(ATTENTION)
    assert () == found.conflicts
    for name in ("m", "m_prev", "scale"):
        assert 4 == found.layouts[name].replication
        assert found.layouts[name].same_owners(found.layouts["m"])
    assert operand(64, 128, 4) == found.layouts["P"]
    assert 31 == found.reasons["m"].loc.line


def test_the_order_of_constraints_does_not_change_what_is_fixed() -> None:
    there, back = solve(ATTENTION), solve(ATTENTION[::-1])
    assert () == back.conflicts
    assert all(layout.same_owners(back.layouts[var]) for var, layout in there.layouts.items())


def test_a_second_wish_is_a_conflict_that_names_both() -> None:
    other = blocked((64, 128), 128, 8)
    found = solve([*ATTENTION, FixedLayout("P", other, reason("T.annotate_layout", 12))])
    (conflict,) = found.conflicts
    assert "P" == conflict.constraint.var
    assert (44, 12) == (conflict.fixed_by and conflict.fixed_by.loc.line, conflict.constraint.reason.loc.line)
    assert other == conflict.needed


def test_a_layout_that_will_do_as_well_is_taken_where_others_lead_to_it() -> None:
    sums, wanted = accumulator(64, 128, 4), blocked((64, 128), 128, 8)
    chosen = FixedLayout("P", wanted, reason("T.gemm reads it", 44), other=sums)
    others = [c for c in ATTENTION if not (isinstance(c, FixedLayout) and c.var == "P")]
    found = solve([chosen, *others])
    assert () == found.conflicts
    assert sums == found.layouts["P"]  # with its order of values
    alone = solve([chosen])
    assert () == alone.conflicts
    assert wanted == alone.layouts["P"]
    led_elsewhere = solve([chosen, FixedLayout("P", replicated((64, 128), 128), reason("T.annotate_layout", 12))])
    assert [chosen] == [conflict.constraint for conflict in led_elsewhere.conflicts]


def test_a_nest_follows_what_it_writes() -> None:
    small, large = blocked((64,), 64), replicated((64,), 64)
    found = solve([
        FixedLayout("a", large, reason("a", 1)), FixedLayout("b", small, reason("b", 2)),
        *uses("loop", 3, ("a", VECTOR), ("b", VECTOR), reads=("a",)),
    ])  # fmt: skip
    assert found.layouts["loop"].same_owners(small)
    assert () == found.conflicts  # every thread holds all of what is read


@pytest.mark.parametrize(("read", "written", "converted"), [(4, 2, "b"), (2, 4, "a"), (4, 4, "a")])
def test_a_nest_follows_what_is_dearest_to_convert(read: int, written: int, converted: str) -> None:
    found = solve([
        FixedLayout("a", blocked((64, 8), 64, 8), reason("a", 1)), FixedLayout("b", blocked((64, 8), 64), reason("b", 2)),
        AccessLayout("b", "cast", identity((64, 8)), reason("T.Parallel", 3), item_bytes=written),
        AccessLayout("a", "cast", identity((64, 8)), reason("T.Parallel", 3), writes=False, item_bytes=read),
    ])  # fmt: skip
    assert [converted] == [conflict.constraint.var for conflict in found.conflicts]


def test_reading_fewer_copies_than_there_are_threads_is_a_conflict() -> None:
    found = solve([
        FixedLayout("a", blocked((64,), 64), reason("a", 1)), FixedLayout("b", replicated((64,), 64), reason("b", 2)),
        *uses("loop", 3, ("a", VECTOR), ("b", VECTOR), reads=("a",)),
    ])  # fmt: skip
    assert ["a"] == [conflict.constraint.var for conflict in found.conflicts]
    assert found.conflicts[0].needed is not None
    assert 64 == found.conflicts[0].needed.replication


def test_the_heaviest_choice_comes_first() -> None:
    wide, narrow = blocked((8, 64), 64, 4), blocked((8, 64), 64, 1)
    tile = identity((8, 64))
    found = solve([
        *uses("load", 1, ("x", tile)), *uses("store", 2, ("x", tile), reads=("x",)),
        LayoutChoice("store", (narrow,), reason("store", 2), weight=1), LayoutChoice("load", (wide,), reason("load", 1), weight=2),
    ])  # fmt: skip
    assert wide.same_owners(found.layouts["store"])
    assert () == found.conflicts


def test_an_open_choice_suits_what_is_known() -> None:
    """A row vector of an accumulator, used with a tile that nobody fixed."""
    c = accumulator(64, 32, 4)
    tile = blocked((64, 48), 128, 4)
    found = solve([
        FixedLayout("C", c, reason("T.gemm", 1)),
        *uses("fold", 2, ("m", drop_dim((64, 32), 1)), ("C", identity((64, 32))), reads=("C",)),
        *uses("load", 3, ("x", identity((64, 48)))),
        *uses("both", 4, ("x", identity((64, 48))), ("m", drop_dim((64, 48), 1)), reads=("m",)),
        LayoutChoice("both", (tile,), reason("T.Parallel", 4), weight=1, vector=4),
    ])  # fmt: skip
    assert () == found.conflicts
    assert found.layouts["m"].same_owners(solve([FixedLayout("m", found.layouts["m"], reason("", 0))]).layouts["m"])
    assert 4 == found.layouts["x"].value[0].size


def test_what_digits_do_not_tell_is_a_conflict_without_a_layout() -> None:
    diagonal = DigitMap(((Mode(8, (1,)),), (Mode(8, (1,)),)), (15,))
    found = solve([
        *uses("loop", 1, ("x", diagonal)), LayoutChoice("loop", (blocked((8, 8), 64),), reason("T.Parallel", 1)),
    ])  # fmt: skip
    assert [(None, None)] == [(c.needed, c.fixed_by) for c in found.conflicts]


def test_the_first_wish_for_shared_memory_stands() -> None:
    first, second = swizzled((8, 64), 16, 128), padded((8, 64), 8)
    found = solve([SharedLayout("A", first, reason("T.gemm", 1)), SharedLayout("A", second, reason("T.gemm", 2))])
    assert {"A": first} == found.shared
    assert 1 == found.shared_reasons["A"].loc.line


def test_what_an_instruction_requires_of_shared_memory_comes_first() -> None:
    first, second = swizzled((8, 64), 16, 128), padded((8, 64), 8)
    needed = SharedLayout("A", second, reason("T.gemm", 2), required=True)
    found = solve([SharedLayout("A", first, reason("T.gemm", 1)), needed])
    assert ({"A": second}, ()) == (found.shared, found.unmet)


def test_two_requirements_that_differ_are_told() -> None:
    first, second = swizzled((8, 64), 16, 128), padded((8, 64), 8)
    wishes = [SharedLayout("A", layout, reason("T.gemm", n), required=True) for n, layout in enumerate((first, first, second))]
    found = solve(wishes)
    assert {"A": first} == found.shared
    assert ((wishes[2], wishes[0]),) == found.unmet


@pytest.mark.parametrize("constraints", [[], [FixedLayout("x", replicated((2,), 32), Reason("user"))]])
def test_little_is_asked(constraints: list[Constraint]) -> None:
    assert len(constraints) == len(solve(constraints).layouts)
