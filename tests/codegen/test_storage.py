"""Where tiles live: stack or arena, and who shares bytes."""

from tilelang.codegen.storage import STACK_BYTES, plan_storage
from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.stmt import Alloc, For, ForKind, Seq


def tile(name, elements, view_of=None):
    return Buffer(name, (as_expr(elements),), FLOAT32, Scope.SHARED, view_of=view_of)


def loop(body):
    return For(Var("i", INT32, index=True), as_expr(0), as_expr(4), 1, ForKind.SERIAL, body)


def test_small_tiles_stay_on_the_stack():
    plan = plan_storage(Seq((Alloc(tile("a", 1024)), Alloc(tile("b", 1024)))))
    assert {} == plan.offsets
    assert 0 == plan.arena_bytes


def test_the_largest_tile_leaves_the_stack_first():
    small, large = tile("small", 64), tile("large", STACK_BYTES)
    plan = plan_storage(Seq((Alloc(small), Alloc(large))))
    assert {large: 0} == plan.offsets
    assert 4 * STACK_BYTES == plan.arena_bytes


def test_tiles_that_are_alive_together_never_overlap():
    a, b, c = (tile(name, STACK_BYTES) for name in "abc")
    plan = plan_storage(Seq((Alloc(a), Alloc(b), loop(Seq((Alloc(c),))))))
    assert [0, 4 * STACK_BYTES, 8 * STACK_BYTES] == [plan.offsets[x] for x in (a, b, c)]
    assert 12 * STACK_BYTES == plan.arena_bytes


def test_scopes_that_follow_one_another_share_bytes():
    a, b = tile("a", STACK_BYTES), tile("b", STACK_BYTES)
    plan = plan_storage(Seq((loop(Alloc(a)), loop(Seq((Alloc(b),))))))
    assert plan.offsets[a] == plan.offsets[b] == 0
    assert 4 * STACK_BYTES == plan.arena_bytes


def test_a_view_takes_no_room():
    a = tile("a", STACK_BYTES)
    plan = plan_storage(Seq((Alloc(a), Alloc(tile("v", STACK_BYTES, view_of=a)))))
    assert {a: 0} == plan.offsets
