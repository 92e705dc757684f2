"""What producers and consumers can do on a target: its table of lowerings asked about single operators.

Takes a target's table of lowerings; gives `Roles`. Invariant: nothing is decided here, and a yes holds for the operator
as `specialize_warps` hands it to the role that does it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import field

from tilelang.analysis.fixed_layouts import fixed_layouts
from tilelang.dtypes import INT32, SCALARS
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import const
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.stmt import Launch, TileOp
from tilelang.ir.visit import walk
from tilelang.layout.layout import Layout
from tilelang.lowering.lowering import Lowering, LoweringContext, Lowerings, Refusal
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm, matrix_extents
from tilelang.passes.base import PassContext
from tilelang.records import record
from tilelang.targets.nvidia.passes.roles.epilogue import Exit, find_exits
from tilelang.targets.nvidia.passes.roles.rings import Ring, Rings, find_rings
from tilelang.targets.nvidia.requests import COPY_TMA_LOAD, COPY_TMA_STORE
from tilelang.transforms.versions import versioned

PRODUCT = "gemm.wgmma"  # the lowering of products that makes specializing worthwhile
_DTYPE = SCALARS["uint64"]


@record
class Roles:
    """What a target's lowerings can do for producers and consumers.

    Attributes:
        lowerings: The table.
        context: The target and what the user asked for.
        tensors: What the host can describe to the copy engine, under any name: the parameters of the function.
        layouts: Of shared tiles whose layout no operator may choose.
    """

    lowerings: Lowerings
    context: PassContext
    tensors: frozenset[Buffer]
    layouts: Mapping[Buffer, Layout]
    _answers: dict[tuple[TileOp, str, int], str] = field(default_factory=dict)  # an operator is asked about once

    def rings(self, launch: Launch) -> Rings:
        """The tiles of a flat launch that one thread can bring."""
        return find_rings(launch, self._can_bring)

    def parts_refusal(self, copy: Copy, parts: int) -> str:
        """Why several threads, in blocks of a cluster, cannot bring parts of a tile each; empty if they can."""
        return self._once(copy, COPY_TMA_LOAD, parts, lambda: self._refuses_part(copy, parts))

    def _refuses_part(self, copy: Copy, parts: int) -> str:
        part = const(0, INT32)
        return self._refuses_load(dataclasses.replace(copy, multicast_mask=part, part=part, parts=parts))

    def _can_bring(self, copy: Copy) -> str:
        return self._once(copy, COPY_TMA_LOAD, 0, lambda: self._refuses_load(copy))

    def _refuses_load(self, copy: Copy) -> str:
        if copy.src.buffer.storage not in self.tensors:
            return f"'{copy.src.buffer.name}' is no parameter"
        barrier = Buffer("barrier", (const(1, _DTYPE),), _DTYPE, Scope.BARRIER)
        brought = dataclasses.replace(copy, barrier=Region(barrier, (const(0, INT32),), (const(1, INT32),)))
        return self._refusal(brought, COPY_TMA_LOAD, 1) or self._refusal(_one_of_several(brought), COPY_TMA_LOAD, 1)

    def exits(self, launch: Launch, threads: int) -> tuple[Exit, ...]:
        """The results of a flat launch that the copy engine can store."""

        def can_store(copy: Copy) -> str:
            if copy.dst.buffer.storage not in self.tensors:
                return f"'{copy.dst.buffer.name}' is no parameter"
            return self._once(copy, COPY_TMA_STORE, threads, lambda: self._refusal(copy, COPY_TMA_STORE, threads))

        return find_exits(launch, can_store)

    def refuses(self, product: Gemm, threads: int) -> str:
        """Why so many threads cannot do a product by the instructions of warpgroups; empty if they can.

        A wide operand is rounded into a fragment before, as `choose_lowerings` does it.
        """
        return self._once(product, PRODUCT, threads, lambda: self._refuses_product(product, threads))

    def _refuses_product(self, product: Gemm, threads: int) -> str:
        made = dataclasses.replace(product, a=rounded(product, 0), b=rounded(product, 1))
        return self._refusal(made, PRODUCT, threads)

    def reads_in_place(self, product: Gemm, tile: Buffer, threads: int) -> bool:
        """Whether instructions of warpgroups read a tile where it is, and nothing else of a product does."""
        pairs = zip((product.a, product.b), product.operands, strict=True)
        as_they_are = all(r.dtype == dtype for r, dtype in pairs if r.buffer.storage is tile.storage)
        return as_they_are and not self.refuses(product, threads)

    def read_by_warpgroups(self, ring: Ring, threads: int) -> bool:
        """Whether only instructions of warpgroups, of so many threads, read the tiles of a ring."""
        return all(
            isinstance(reader, Gemm) and all(self.reads_in_place(reader, tile, threads) for tile in ring.tiles)
            for reader in ring.readers
        )

    def _once(self, op: TileOp, name: str, count: int, ask: Callable[[], str]) -> str:
        """The answer to a question about an operator and a number of threads or parts."""
        key = (op, name, count)
        if key not in self._answers:
            self._answers[key] = ask()
        return self._answers[key]

    def _refusal(self, op: TileOp, name: str, threads: int) -> str:
        row = self._row(type(op), name)
        if row is None:
            return f"the target has no {name}"
        target, options = self.context.target, self.context.options
        context = LoweringContext(target, options, threads, shared_layouts=self.layouts, has_producer=True)
        answer = row.accepts(op, context)
        return answer.reason if isinstance(answer, Refusal) else ""

    def _row(self, kind: type[TileOp], name: str) -> Lowering | None:
        return next((row for row in self.lowerings.get(kind, ()) if row.name == name), None)


def roles_of(func: PrimFunc, lowerings: Lowerings, context: PassContext) -> Roles:
    """What a target's lowerings can do in a function."""
    tensors = frozenset(param.buffer for param in func.params if isinstance(param, TensorParam))
    launches = [stmt for stmt in walk(func.body) if isinstance(stmt, Launch)]
    layouts = {tile: layout for launch in launches for tile, layout in fixed_layouts(launch).items()}
    return Roles(lowerings, context, tensors, layouts)


def rounded(product: Gemm, side: int) -> Region:
    """The left or the right operand in the dtype in which it is multiplied."""
    region, dtype = (product.a, product.b)[side], product.operands[side]
    if region.dtype == dtype:
        return region
    extents = matrix_extents(region)
    return whole(Buffer(region.buffer.name, extents, dtype, Scope.FRAGMENT, loc=region.buffer.loc))


def _one_of_several(copy: Copy) -> Copy:
    """A copy to one of the versions that a ring has of its tile, which lie one behind another."""
    zero, one = (const(number, INT32) for number in (0, 1))
    tiles = Region(versioned(copy.dst.buffer, 2), (zero, *copy.dst.start), (one, *copy.dst.extent))
    return dataclasses.replace(copy, dst=tiles)
