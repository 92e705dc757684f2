"""What is known where statements stand."""

from tilelang.analysis.context_facts import ContextFacts, FactPropagation
from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Var, as_expr
from tilelang.ir.stmt import Bind, For, ForKind, If, Seq, While

I, J, N = Var("i", INT32, index=True), Var("j", INT32, index=True), Var("n", INT32, index=True)
G = Buffer("G", (as_expr(8),), as_dtype("int32"), Scope.GLOBAL)
NOTHING = ContextFacts(Domain(), {}, ())
CONTENTS = Load(G, (as_expr(0),), INT32)


def test_behind_a_name_its_value_is_known_in_terms_of_what_it_was_made_of():
    propagation = FactPropagation()
    first, second = Bind(I, N * 4), Bind(J, I + 1)
    after = propagation.after(second, propagation.after(first, NOTHING))
    assert "n * 4 + 1" == str(after.values[J])
    assert after is propagation.after(second, propagation.after(first, NOTHING))


def test_values_that_depend_on_the_contents_of_memory_are_not_told():
    assert {} == FactPropagation().after(Bind(I, CONTENTS), NOTHING).values
    assert NOTHING is FactPropagation().in_branch(If(CONTENTS < 1, Seq(())), NOTHING, holds=True)


def test_inside_of_a_loop_its_range_is_known():
    in_body = FactPropagation().in_body(For(I, as_expr(2), as_expr(9), 1, ForKind.SERIAL, Seq(())), NOTHING)
    assert proves(I >= 2, in_body.domain) and proves(I < 9, in_body.domain)
    assert not proves(I < 8, in_body.domain)
    assert NOTHING is FactPropagation().in_body(While(I < 9, Seq(())), NOTHING)


def test_a_condition_is_known_where_it_holds_and_its_opposite_where_it_does_not():
    propagation, branch = FactPropagation(), If(I < 4, Seq(()))
    assert proves(I < 4, propagation.in_branch(branch, NOTHING, holds=True).domain)
    assert proves(I >= 4, propagation.in_branch(branch, NOTHING, holds=False).domain)
    assert 1 == len(propagation.in_branch(branch, NOTHING, holds=False).conditions)
