"""What is known where statements stand."""

from tilelang.analysis.surroundings import Around, Surroundings
from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Var, as_expr
from tilelang.ir.stmt import Bind, For, ForKind, If, Seq, While

I, J, N = Var("i", INT32, index=True), Var("j", INT32, index=True), Var("n", INT32, index=True)
G = Buffer("G", (as_expr(8),), as_dtype("int32"), Scope.GLOBAL)
NOTHING = Around(Domain(), {}, ())
CONTENTS = Load(G, (as_expr(0),), INT32)


def test_behind_a_name_its_value_is_known_in_terms_of_what_it_was_made_of():
    places = Surroundings()
    first, second = Bind(I, N * 4), Bind(J, I + 1)
    behind = places.behind(second, places.behind(first, NOTHING))
    assert "n * 4 + 1" == str(behind.values[J])
    assert behind is places.behind(second, places.behind(first, NOTHING))


def test_values_that_depend_on_the_contents_of_memory_are_not_told():
    assert {} == Surroundings().behind(Bind(I, CONTENTS), NOTHING).values
    assert NOTHING is Surroundings().under(If(CONTENTS < 1, Seq(())), NOTHING, holds=True)


def test_inside_of_a_loop_its_range_is_known():
    inside = Surroundings().inside(For(I, as_expr(2), as_expr(9), 1, ForKind.SERIAL, Seq(())), NOTHING)
    assert proves(I >= 2, inside.domain) and proves(I < 9, inside.domain)
    assert not proves(I < 8, inside.domain)
    assert NOTHING is Surroundings().inside(While(I < 9, Seq(())), NOTHING)


def test_a_condition_is_known_where_it_holds_and_its_opposite_where_it_does_not():
    places, branch = Surroundings(), If(I < 4, Seq(()))
    assert proves(I < 4, places.under(branch, NOTHING, holds=True).domain)
    assert proves(I >= 4, places.under(branch, NOTHING, holds=False).domain)
    assert 1 == len(places.under(branch, NOTHING, holds=False).conditions)
