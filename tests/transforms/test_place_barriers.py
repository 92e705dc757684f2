from thread_kernels import index

from tilelang.errors import NOWHERE
from tilelang.ir.expr import as_expr
from tilelang.ir.stmt import Break, CallStmt, For, ForKind, Seq
from tilelang.targets.gpu.isa.sync import SYNC_THREADS, SYNC_WARP
from tilelang.transforms.place_barriers import PlaceBarriers, block_barrier


def barrier(place):
    return CallStmt(SYNC_THREADS, (), loc=place.loc)


def test_barriers_stand_before_statements_and_at_ends_of_bodies():
    first, second = Break(), Break()
    body = Seq((first, second))
    loop = For(index("i"), as_expr(0), as_expr(4), 1, ForKind.SERIAL, body)
    made = PlaceBarriers({second, loop}, {body}, barrier).visit(loop)
    before, inside = made.body
    assert isinstance(before, CallStmt)
    assert [Break, CallStmt, Break, CallStmt] == [type(s) for s in inside.body.body]


def test_without_any_the_program_stays_as_it_is():
    body = Seq((Break(), Break()))
    assert PlaceBarriers(set(), set(), barrier).visit(body) is body


def test_a_single_warp_meets_by_itself():
    assert SYNC_THREADS is block_barrier(64, 32, NOWHERE).routine
    alone = block_barrier(8, 32, NOWHERE)
    assert (SYNC_WARP, 0xFF, "uint32") == (alone.routine, alone.args[0].value, alone.args[0].dtype)


def test_a_mask_has_a_bit_for_each_lane_of_a_wide_warp():
    assert SYNC_THREADS is block_barrier(128, 64, NOWHERE).routine
    alone = block_barrier(64, 64, NOWHERE)
    assert (SYNC_WARP, 2**64 - 1, "uint64") == (alone.routine, alone.args[0].value, alone.args[0].dtype)
