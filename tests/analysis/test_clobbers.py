from tilelang.analysis.clobbers import Clobbers
from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32, INT64
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, Load, Var, const
from tilelang.ir.stmt import CallStmt, For, ForKind, If, Seq, Store
from tilelang.targets.gpu.isa.sync import SYNC_THREADS

I = Var("i", INT32, index=True)
ZERO, EIGHT = const(0, INT32), const(8, INT32)


def buffer(name: str, scope: Scope, address: Expr | None = None) -> Buffer:
    return Buffer(name, (EIGHT,), INT32, scope, address=address)


GLOBAL, OTHER = buffer("global", Scope.GLOBAL), buffer("other", Scope.GLOBAL)
ANYWHERE = buffer("anywhere", Scope.GLOBAL, Var("p", INT64))
SHARED, LOCAL = buffer("shared", Scope.SHARED), buffer("local", Scope.LOCAL)
ALL = (GLOBAL, OTHER, ANYWHERE, SHARED, LOCAL)


def known(*, stmt: Store | For | If | CallStmt | Seq, body: Seq = Seq(())) -> set[str]:
    """The memory of which something is known still behind a statement."""
    domain = Domain().with_range(I, 0, 7)
    for each in ALL:
        domain = domain.assume(Load(each, (I,), INT32) > 3, momentary=True)
    after = Clobbers(body).after(stmt, domain)
    assert after is domain or after.loads != domain.loads
    return {each.name for each in after.loads}


def write(target: Buffer) -> Store:
    return Store(target, (ZERO,), EIGHT)


def test_nothing_is_known_of_what_is_written() -> None:
    every = {each.name for each in ALL}
    for target, lost in ((LOCAL, {"local"}), (SHARED, {"shared"}), (OTHER, {"other", "anywhere"})):
        for stmt in (
            write(target),
            If(I > 3, write(target)),
            For(Var("k", INT32, index=True), ZERO, EIGHT, 1, ForKind.SERIAL, write(target)),
        ):
            assert every - lost == known(stmt=stmt)
    assert {"shared", "local"} == known(stmt=write(ANYWHERE))


def test_who_waits_may_see_what_others_wrote() -> None:
    wait = CallStmt(SYNC_THREADS, ())
    assert {each.name for each in ALL} == known(stmt=wait)
    assert {"global", "other", "local", "anywhere"} == known(stmt=wait, body=Seq((write(SHARED), write(LOCAL))))


def test_views_change_what_they_are_views_of() -> None:
    view = Buffer("view", (EIGHT,), INT32, Scope.LOCAL, view_of=LOCAL)
    assert {"global", "other", "anywhere", "shared"} == known(stmt=write(view))
