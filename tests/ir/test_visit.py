import dataclasses

import pytest

from tilelang.dtypes import BOOL, FLOAT32, INT32, INT64, as_dtype
from tilelang.errors import Loc, ProgramError
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.callee import Callee
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Binary, Call, Const, Expr, Load, Reinterpret, Var, binary, cast, const, select, unary
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.stmt import (
    Atomic,
    AtomicOp,
    Bind,
    Break,
    Continue,
    For,
    ForKind,
    If,
    Launch,
    ParallelLoop,
    Reduction,
    Seq,
    Stmt,
    Store,
)
from tilelang.ir.visit import (
    Rewriter,
    any_expr,
    children,
    defined_variables,
    expressions,
    jumps,
    loads_of,
    needed_bindings,
    sub_statements,
    substitute,
    substitute_stmt,
    uses,
    variables_of,
    walk,
    walk_expr,
    written_buffers,
)
from tilelang.ops.copy import Copy

i, j, k = (Var(name, INT32, index=True) for name in "ijk")
f, p = Var("f", FLOAT32), Var("p", BOOL)
A = Buffer("A", (const(8, INT32), const(8, INT32)), FLOAT32, Scope.GLOBAL)
B = Buffer("B", (const(8, INT32), const(8, INT32)), FLOAT32, Scope.SHARED)
TWICE = Callee("twice", 1, lambda t: FLOAT32, lambda x: x + x, lambda t: FLOAT32)
HERE, THERE = Loc("k.py", 3), Loc("k.py", 4)


def loop(body: Stmt, reductions: tuple[Reduction, ...] = ()) -> For:
    return For(k, const(0, INT32), i + 4, 1, ForKind.SERIAL, body, loc=HERE, reductions=reductions)


def store(value: Expr, loc: Loc = THERE) -> Store:
    return Store(A, (i, k), value, loc=loc)


def every_kind() -> Expr:
    call = Call(TWICE, (Load(A, (i, j), FLOAT32),), FLOAT32)
    bits = Reinterpret(cast(j, FLOAT32), INT32)
    return select(unary(UnaryOp.NOT, p), call + f, cast(bits + 1, FLOAT32))


def test_operands_come_in_evaluation_order():
    expr = select(p, i + 1, j)
    assert p is children(expr)[0]
    assert j is children(expr)[2]
    assert () == children(i)


def test_expressions_are_walked_parents_first_and_left_to_right():
    expr = i + j * 2
    kinds = [node.name if isinstance(node, Var) else type(node).__name__ for node in walk_expr(expr)]
    assert ["Binary", "i", "Binary", "j", "Const"] == kinds


def test_statements_are_walked_in_program_order():
    first, second = store(f), store(f + 1)
    whole = Seq((loop(first), If(p, second, first)))
    assert ["Seq", "For", "Store", "If", "Store", "Store"] == [type(s).__name__ for s in walk(whole)]
    assert [second, first] == list(sub_statements(whole.body[1]))


def test_the_expressions_of_a_statement_are_its_operands_only():
    found = list(expressions(loop(store(f))))
    assert 2 == len(found)  # the bounds; neither the variable nor the body
    copy = Copy(Region(A, (i, j), (k, k)), Region(B, (i, j), (k, k)))
    assert [id(e) for e in (i, j, k, k) * 2] == [id(e) for e in expressions(copy)]
    assert 1 == len(list(expressions(Bind(j, i + 1))))
    reduced = loop(store(f), (Reduction(B, (i, j), "+"),))
    assert 4 == len(list(expressions(reduced)))


def test_nothing_changed_is_the_same_object():
    whole = Seq((loop(store(every_kind())), Copy(Region(A, (i, j), (k, k)), Region(B, (i, j), (k, k)))))
    assert whole is Rewriter().visit(whole)


def test_every_kind_of_expression_is_rebuilt():
    new = substitute(every_kind(), {j: k, p: i < 3, f: f * 2.0})
    names = {node.name for node in walk_expr(new) if isinstance(node, Var)}
    assert {"i", "k", "f"} == names
    back = substitute(substitute(every_kind(), {j: k}), {k: j})
    assert same_expr(every_kind(), back)


def test_rebuilding_folds():
    assert 7 == substitute(i * 2 + 1, {i: const(3, INT32)}).value


def test_a_rebuilt_operation_keeps_its_dtype():
    d = Var("d", INT32)
    product = Binary(BinaryOp.MUL, d, const(2 * 10**9, INT32), INT32)
    new = substitute(product, {d: const(3, INT32)})
    assert (1705032704, INT32) == (new.value, new.dtype)
    u = Var("u", as_dtype("uint8"))
    assert "uint8" == substitute(u + 1, {u: Const(3, INT32, weak=True)}).dtype
    chosen = select(p, Var("x", INT64), Var("y", INT64))
    assert INT64 == substitute(chosen, {chosen.a: d, chosen.b: d}).dtype


def test_a_rewritten_statement_keeps_its_location():
    new = substitute_stmt(loop(store(f)), {f: f + 1})
    assert HERE == new.loc
    assert THERE == new.body.loc
    assert same_expr(f + 1, new.body.value)


def test_buffers_are_replaced_wherever_they_are_named():
    statement = Seq(
        (
            loop(Store(A, (i, k), Load(A, (i, k), FLOAT32)), (Reduction(A, (i,), "+"),)),
            Copy(Region(A, (i, j), (k, k)), Region(B, (i, j), (k, k))),
        )
    )
    new = substitute_stmt(statement, {}, {A: B})
    first, second = new.body
    assert (B, B, B, B) == (first.body.buffer, first.body.value.buffer, first.reductions[0].buffer, second.src.buffer)


def test_a_statement_may_be_deleted_or_multiplied():
    class Change(Rewriter):
        def stmt(self, node: Stmt) -> Stmt | None:
            if isinstance(node, Bind):
                return None
            return Seq((node, node)) if isinstance(node, Store) else self.rebuild_stmt(node)

    new = Change().visit(Seq((Bind(j, i), store(f))))
    assert ["Seq", "Seq", "Store", "Store"] == [type(s).__name__ for s in walk(new)]
    emptied = Change().visit(loop(Bind(j, i)))
    assert () == emptied.body.body


def test_an_error_has_the_innermost_location():
    class Fail(Rewriter):
        def expr(self, node: Expr) -> Expr:
            if node is f:
                raise ProgramError("broken")
            return self.rebuild_expr(node)

    with pytest.raises(ProgramError) as caught:
        Fail().visit(loop(store(f + 1)))
    assert THERE == caught.value.loc

    def look() -> None:
        for statement in walk(loop(store(f))):
            if isinstance(statement, Store):
                raise ProgramError("seen")

    with pytest.raises(ProgramError):
        look()


def test_any_expression_is_visited():
    launch = Launch((i,), (j + 1,), (128, 1, 1), ParallelLoop((k,), (const(8, INT32),), store(f)))
    assert any_expr(launch, lambda e: e is f)
    assert any_expr(launch, lambda e: e is j)
    assert not any_expr(launch, lambda e: e is p)
    assert not any_expr(launch, lambda e: isinstance(e, Load))
    assert uses(launch, j)
    assert not uses(launch, p)


def test_comparison_operators_are_rebuilt_too():
    assert same_expr(binary(BinaryOp.LT, j, 3), substitute(i < 3, {i: j}))


def test_a_statement_writes_what_it_stores_copies_or_updates_but_not_what_it_loads():
    atomic = Atomic(AtomicOp.ADD, A, (i, j), f)
    peek = Atomic(AtomicOp.LOAD, A, (i, j), None, f)
    whole = Region(B, (const(0, INT32), const(0, INT32)), B.shape)
    copy = Copy(Region(A, (i, j), B.shape), whole)
    assert [(A,), (A,), (), (B,), ()] == [written_buffers(s) for s in (store(f), atomic, peek, copy, loop(store(f)))]


def test_jumps_belong_to_the_innermost_loop():
    guarded = If(p, Seq((store(f), Continue())))
    assert jumps(guarded)
    assert not jumps(guarded, Break)
    assert not jumps(loop(guarded))


def test_atomics_that_combine_have_an_operator():
    assert BinaryOp.BITXOR is AtomicOp.XOR.operator
    assert [None] * 3 == [op.operator for op in (AtomicOp.EXCHANGE, AtomicOp.LOAD, AtomicOp.STORE)]


def test_a_folded_index_literal_wraps_at_a_store():
    """Index arithmetic has no width, but an element has."""
    buffer = Buffer("A", (const(4, INT32),), INT32, Scope.GLOBAL)
    i = Var("i", INT32, index=True)
    store = Store(buffer, (i,), (i - 20) << 28)
    changed = substitute_stmt(store, {i: Const(0, INT32)})
    assert isinstance(changed, Store)
    assert (-1073741824, INT32) == (changed.value.value, changed.value.dtype)


def test_variables_of_an_expression():
    load = Load(A, (i + 1, j * 2), INT32)
    assert frozenset((i, j)) == variables_of(load) == variables_of(load + 0 * i)
    assert frozenset((i,)) == variables_of(i)
    assert frozenset() == variables_of(const(3, INT32))


def test_the_loads_of_an_expression_come_parents_first_and_left_to_right():
    inner = Load(B, (i, j), INT32)
    outer, other = Load(A, (inner, j), FLOAT32), Load(A, (i, j), FLOAT32)
    assert (outer, inner, other) == loads_of(outer * 2.0 + other)
    assert () == loads_of(i + 1) == loads_of(i) == loads_of(const(3, INT32))


def test_what_a_statement_holds_is_listed_once():
    inner = store(f)
    outer = loop(inner)
    assert expressions(outer) is expressions(outer)
    assert (inner,) == sub_statements(outer) and sub_statements(outer) is sub_statements(outer)


def test_a_rewriter_of_statements_alone_leaves_expressions_and_leaves_as_they_are():
    class Unroll(Rewriter):
        def stmt(self, node: Stmt) -> Stmt | None:
            new = self.rebuild_stmt(node)
            return dataclasses.replace(new, kind=ForKind.UNROLLED) if isinstance(new, For) else new

    class Named(Unroll):
        def expr(self, node: Expr) -> Expr:
            return j if node is i else self.rebuild_expr(node)

    body = store(i + 1)
    new = Unroll().visit(loop(body))
    assert new.kind is ForKind.UNROLLED and new.body is body
    assert same_expr(j + 1, Named().visit(loop(body)).body.value)


def test_needed_bindings_are_those_that_statements_use_definitions_before_uses():
    a, b, c = (Var(name, INT32, index=True) for name in "abc")
    first, second, other = Bind(a, i + 1), Bind(b, a * 2), Bind(c, a + b)
    bindings = {bind.var: bind for bind in (other, second, first)}
    assert [first, second] == needed_bindings([loop(store(cast(b + a, FLOAT32)))], bindings)
    assert [first, second, other] == needed_bindings([store(f), Store(A, (c, b), f)], bindings)
    assert [] == needed_bindings([store(f)], bindings)


def test_a_statement_defines_the_variables_of_its_own_but_not_those_below_it():
    result = Var("old", FLOAT32)
    inner = Bind(j, i + 1)
    assert (k,) == defined_variables(loop(inner))
    assert (j,) == defined_variables(inner)
    assert (i, j) == defined_variables(ParallelLoop((i, j), (const(8, INT32), const(8, INT32)), inner))
    assert (i,) == defined_variables(Launch((i,), (const(4, INT32),), (32, 1, 1), inner))
    assert (result,) == defined_variables(Atomic(AtomicOp.ADD, A, (i, j), f, result=result))
    assert () == defined_variables(Atomic(AtomicOp.ADD, A, (i, j), f)) == defined_variables(store(f))
