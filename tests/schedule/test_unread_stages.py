"""Releases of stages that no gemm may have read: on some path from the wait there is none."""

import pytest

from tilelang.arith.domain import Domain
from tilelang.dtypes import BOOL, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, const
from tilelang.ir.pipeline import Pipeline, Release, Wait, barriers
from tilelang.ir.stmt import Bind, Break, Continue, For, ForKind, Group, If, Seq, While
from tilelang.lowering.regions import whole
from tilelang.ops.gemm import Gemm
from tilelang.schedule.unread_stages import unread_releases

ZERO = const(0, INT32)
COUNT, SOME, TEST = Var("count", INT32, index=True), Var("some", INT32, index=True), Var("test", BOOL)


def pipeline(name):
    tile = Buffer(name, (const(64, INT32), const(64, INT32)), INT32, Scope.SHARED)
    groups = Group(128, 32), Group(0, 128)
    return Pipeline(name, (tile,), 1, barriers("full", 1), barriers("empty", 1), *groups, 128)


K, V = pipeline("K"), pipeline("V")
SUMS = Buffer("C", (const(64, INT32), const(64, INT32)), INT32, Scope.FRAGMENT)
READ_K, READ_V = (Gemm(whole(each.tiles[0]), whole(each.tiles[0]), whole(SUMS)) for each in (K, V))


def wait(each=K):
    return Wait(each, ZERO, ZERO)


def release(each=K):
    return Release(each, ZERO)


def loop(count, *body):
    return For(Var("i", INT32), ZERO, const(count, INT32) if isinstance(count, int) else count, 1, ForKind.SERIAL, Seq(body))


def skips(*then):
    return If(TEST, Seq(then))


# statements, and how many of their releases may be of unread stages
PATHS = {
    "read": ((wait(), READ_K, release()), 0),
    "no reader": ((wait(), release()), 1),
    "a reader of another tile": ((wait(), READ_V, release()), 1),
    "read before the wait": ((READ_K, wait(), release()), 1),
    "read in one branch": ((wait(), skips(READ_K), release()), 1),
    "read in both branches": ((wait(), If(TEST, READ_K, READ_K), release()), 0),
    "waited for in one branch": ((wait(), READ_K, skips(wait()), release()), 1),
    "read in a loop": ((wait(), loop(2, READ_K), release()), 0),
    "read in a loop with iterations in this domain": ((wait(), loop(SOME, READ_K), release()), 0),
    "read in a loop of a bound count": ((Bind(COUNT, SOME + 1), wait(), loop(COUNT, READ_K), release()), 0),
    "read in a loop that may have no iteration": ((wait(), loop(COUNT, READ_K), release()), 1),
    "read in a loop while a condition holds": ((wait(), While(TEST, Seq((READ_K,))), release()), 1),
    "read unless the loop is left": ((wait(), loop(2, skips(Break()), READ_K), release()), 1),
    "read unless the iteration ends early": ((wait(), loop(2, skips(Continue()), READ_K), release()), 1),
    "read an iteration later": ((loop(3, release(), wait(), READ_K),), 0),
    "waited for an iteration before": ((loop(3, release(), READ_K, wait()),), 1),
    "two pipelines": ((wait(), wait(V), READ_V, release(), release(V)), 1),
    "released twice": ((wait(), release(), READ_K, release()), 1),
}


@pytest.mark.parametrize(("statements", "unread"), PATHS.values(), ids=PATHS)
def test_a_stage_may_be_unread_where_a_path_has_no_gemm(statements, unread):
    found = unread_releases(Seq(statements), Domain().with_range(SOME, 1, 4))
    assert unread == len(found)
    assert all(isinstance(stmt, Release) and stmt.pipeline is K for stmt in found)
