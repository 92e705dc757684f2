"""Detects blocks of a grid whose stores to global memory are all out of bounds, and so are dropped.

Takes a launch, or a function with the sizes of a call, gives a warning. Invariant: there are no false warnings; where a
branch asks for the index of a block, that some blocks store nothing is taken to be meant.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.analysis.accesses import Access, accesses
from tilelang.arith.domain import Domain, of_function
from tilelang.arith.interval import bounds
from tilelang.arith.prove import decide
from tilelang.errors import warn
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.func import PrimFunc
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Bind, Launch
from tilelang.ir.visit import loads_of, variables_of, walk
from tilelang.records import record


@record
class DroppedStores:
    """Blocks along one dimension of a grid whose stores are all dropped.

    Attributes:
        var: The block index.
        first: The first value for which all stores are out of bounds, as for all larger ones.
        count: Number of blocks along the dimension.
        access: The first of the stores.
        axis: The dimension of the tensor in which it is out of bounds.
        extent: The extent of that dimension.
    """

    var: Var
    first: int
    count: int
    access: Access
    axis: int
    extent: Expr

    def warn(self) -> None:
        """Issues the warning."""
        access, name = self.access, self.var.name
        if access.extent is None:
            what = to_text(Load(access.buffer, access.start, access.buffer.dtype))
        else:
            what = to_text(Region(access.buffer, access.start, access.extent))
        last = self.count - 1
        which = f"{name} = {last}" if self.first == last else f"{name} = {self.first} to {last}"
        warn(
            f"T.Kernel: blocks with {which} store nothing: '{what}' is out of bounds in dimension {self.axis}, whose "
            f"extent is {to_text(self.extent)}, and so is all else that they store",
            access.loc,
            hint="start as many blocks as there are tiles; if the extents of the grid stand in another order than the "
            "block indices, swap them",
        )


def warn_of_dropped_stores(func: PrimFunc, sizes: Mapping[Var, int]) -> None:
    """Warns of stores that a call with these sizes would drop."""
    domain = of_function(func)
    for symbol, value in sizes.items():
        domain = domain.with_range(symbol, value, value)
    for stmt in walk(func.body):
        if isinstance(stmt, Launch):
            found = dropped_stores(stmt, domain)
            if found is not None:
                found.warn()


def dropped_stores(launch: Launch, domain: Domain) -> DroppedStores | None:
    """The blocks of a launch whose stores are all dropped, along the first dimension of the grid that has some."""
    stores = [a for a in accesses(launch.body).all if a.write and a.buffer.scope is Scope.GLOBAL]
    if not stores or not all(a.buffer.rank for a in stores):
        return None
    asked = _deciding(stores, launch)
    counts = [bounds(extent, domain).value for extent in launch.grid]
    if any(count is None for count in counts):
        return None
    grid = [count or 0 for count in counts]
    for place, (var, count) in enumerate(zip(launch.block_vars, grid, strict=True)):

        def outside(value: int, place: int = place) -> tuple[Access, int, Expr] | None:
            inside = domain
            for other, (name, extent) in enumerate(zip(launch.block_vars, grid, strict=True)):
                inside = inside.with_range(name, *((value, value) if other == place else (0, extent - 1)))
            found = [_outside(access, inside) for access in stores]
            return None if None in found else found[0]

        if var in asked or min(grid) < 1 or count < 2 or outside(count - 1) is None or outside(0) is not None:
            continue
        low, high = 0, count - 1  # blocks from `high` on store nothing, `low` may store something
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if outside(middle) is not None else (middle, high)
        kept = outside(high)
        assert kept is not None
        return DroppedStores(var, high, count, *kept)
    return None


def _deciding(stores: list[Access], launch: Launch) -> set[Var]:
    """The variables that decide whether stores are executed: all of the launch's, where memory on chip decides."""
    named = {stmt.var: stmt.value for stmt in walk(launch.body) if isinstance(stmt, Bind)}
    pending = [condition for access in stores for condition in access.context.conditions()]
    found: set[Var] = set()
    while pending:
        condition = pending.pop()
        if any(load.buffer.scope is not Scope.GLOBAL for load in loads_of(condition)):
            found.update(launch.block_vars)
        for var in variables_of(condition) - found:
            found.add(var)
            if var in named:
                pending.append(named[var])
    return found


def _outside(access: Access, domain: Domain) -> tuple[Access, int, Expr] | None:
    """The store, axis and extent if a store is certainly out of bounds; None otherwise."""
    inside = access.context.domain(domain)
    for axis, (start, extent) in enumerate(zip(access.start, access.buffer.shape, strict=True)):
        if decide(start >= extent, inside) is True:
            return access, axis, extent
    return None
