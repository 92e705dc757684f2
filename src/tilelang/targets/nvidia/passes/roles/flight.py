"""Products that stay under way while the next one begins: their tiles are given back one iteration later.

Takes a loop and the channels that its body reads, gives a `Flight` if the loop is nothing but a product. Invariant: the
loop surely has an iteration, so that the wait behind it belongs to a product; its operands are in shared memory, and
nothing touches the sums before that wait.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Expr, Var, const, int_const
from tilelang.ir.stmt import Alloc, Bind, CallStmt, For, If, Seq, Stmt
from tilelang.ir.visit import substitute
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.records import record
from tilelang.targets.nvidia.isa.wgmma import wgmma_wait
from tilelang.targets.nvidia.passes.roles.channels import Channel, release
from tilelang.targets.nvidia.passes.roles.ping_pong import Turns
from tilelang.targets.nvidia.passes.roles.rings import Ring, trips


@record(slots=True, eq=False)
class Flight:
    """A loop whose products stay under way.

    Attributes:
        loop: The loop.
        product: The only statement of its body, beside names and what others bring.
        channels: What it reads.
        turns: The order among warpgroups that take turns with tiles, if they do.
    """

    loop: For
    product: Gemm
    channels: tuple[Channel, ...]
    turns: Turns | None = None

    def product_started(self) -> Gemm:
        """The product, behind which the one before it is over."""
        return dataclasses.replace(self.product, wait=1)

    def releases_before(self, thread: Expr) -> list[Stmt]:
        """Gives back what the product before read, if there was one in this loop."""
        made = self._releases(-1, {}, thread)
        return [If(self.loop.var != self.loop.start, Seq(tuple(made)))] if made else []

    def around(self, made: For, thread: Expr) -> list[Stmt]:
        """The loop, with what waits for the last product behind it and gives back what that read."""
        last = self.loop.start + (trips(self.loop) - 1) * self.loop.step
        landed, releases = CallStmt(wgmma_wait(0), ()), self._releases(0, {self.loop.var: last}, thread)
        if self.turns is None:
            return [made, landed, *releases]
        # by the second product all warps have begun the first, but one could still wait for a turn that has passed
        begun = int_const(trips(self.loop)) != 1
        over = [*self.turns.end(thread), landed] if begun else [landed, *self.turns.end(thread)]
        return [*self.turns.begin(), made, *over, *releases]

    def _releases(self, ahead: int, values: Mapping[Var, Expr], thread: Expr) -> list[Stmt]:
        made: list[Stmt] = []
        for each in self.channels:
            number = each.ring.uses().number
            assert number is not None
            number = substitute(number, values) + ahead
            version = const(0, INT32) if each.versions == 1 else number % each.versions
            made += release(each, version, thread)
        return made


def flight_of(loop: For, channels: Sequence[Channel], turns: Turns | None = None) -> Flight | None:
    """The flight of a loop's products; None if they have to land in every iteration."""
    mine = tuple(each for each in channels if each.ring.home is loop.body)
    product = only_product(loop, [each.ring for each in mine])
    if product is None or any(not each.by_warpgroup or each.versions < 2 for each in mine):
        return None
    return Flight(loop, product, mine, turns)


def only_product(loop: For, rings: Sequence[Ring]) -> Gemm | None:
    """The product that a loop surely does and that is all it does, beside what rings bring; None if it is not so."""
    body = loop.body.body if isinstance(loop.body, Seq) else ()
    mine = [ring for ring in rings if ring.home is loop.body]
    copies = {copy for ring in mine for copy in ring.copies}
    rest = [s for s in body if not isinstance(s, Bind | Alloc) and not (isinstance(s, Copy) and s in copies)]
    runs = proves(trips(loop) >= 1, Domain())
    if len(rest) != 1 or not mine or not runs or any(ring.uses().number is None for ring in mine):
        return None
    (product,) = rest
    if not isinstance(product, Gemm):
        return None
    in_place = all(region.buffer.scope is Scope.SHARED for region in (product.a, product.b))
    return product if in_place else None
