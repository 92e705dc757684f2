"""Groups the arrays of a graph into kernels.

A kernel grows from an array that is stored: maps are inlined into their readers, and a reduction joins the kernel of
its reader if the reader's axes are its own. Axes that are reduced become one where both sides read the same elements,
which is what lets softmax and the matrix product behind it share one loop. What cannot join is stored, and read from
memory. Invariant: every array of `stored` is computed by exactly one kernel, before the kernels that read it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence

from tilelang.arith.domain import Domain
from tilelang.arith.simplify import simplify
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Const, Expr, Load, Var, int_const
from tilelang.ir.visit import Rewriter, children, loads_of, substitute
from tilelang.level1.contraction import contraction
from tilelang.level1.fused import FusedKernel, FusedReduction, Output
from tilelang.level1.graph import Array, Graph, Map, Parameter, Reduction, body_at

MAX_WHOLE = 512  # elements of an axis that a block may hold beside a tile of another one
_ROUNDS = 100


class _MustStore(Exception):
    """An array cannot be computed where it is read."""

    def __init__(self, array: Array) -> None:
        super().__init__(array.name)
        self.array = array


def fused_kernels(graph: Graph) -> list[FusedKernel]:
    """The kernels of a graph, in an order in which they can run."""
    stored = {array for array in graph.results if not isinstance(array.definition, Parameter)}
    stored |= {a for a in graph.arrays if not isinstance(a.definition, Map | Reduction | Parameter)}
    for _ in range(_ROUNDS):
        try:
            return [_kernel(array, stored) for array in graph.arrays if array in stored]
        except _MustStore as found:
            stored.add(found.array)
    raise AssertionError("every round stores one more array, and a graph has fewer")


def _kernel(array: Array, stored: set[Array]) -> FusedKernel:
    grower = _Grower(stored)
    kernel = grower.kernel(array)
    _check_feasible(kernel, grower.read_through)
    return kernel


def _check_feasible(kernel: FusedKernel, read_through: Mapping[Array, Array]) -> None:
    """Refuses what one loop cannot compute.

    Raises:
        _MustStore: A reduction must be stored, or the array through which it is read.
    """
    streamed = set(kernel.streamed)
    for reduction in kernel.reductions:
        if set(reduction.reduced) == streamed:
            continue
        shares = not streamed.isdisjoint(reduction.reduced)
        sizes = [int_const(kernel.extents[axis]) for axis in reduction.reduced]
        large = contraction(reduction) is None and not all(size is not None and size <= MAX_WHOLE for size in sizes)
        if shares or large:
            raise _MustStore(_boundary(kernel, reduction, read_through))
    for axis in kernel.parallel:
        size = int_const(kernel.extents[axis])
        if axis not in set(kernel.grid) and (size is None or size > MAX_WHOLE):
            lacking = next(r for r in kernel.reductions if axis not in set(r.axes))
            raise _MustStore(_boundary(kernel, lacking, read_through))


def _boundary(kernel: FusedKernel, reduction: FusedReduction, read_through: Mapping[Array, Array]) -> Array:
    """What to store instead of a reduction in the kernel: an operand of a matrix product as a whole, or its result."""
    for reader in kernel.reductions:
        if reduction in kernel.reads(reader.body) and contraction(reader) is not None:
            return read_through.get(reduction.array, reduction.array)
    return reduction.array


class _Grower(Rewriter):
    """Grows one kernel from the array that it stores."""

    def __init__(self, stored: set[Array]) -> None:
        self._stored = stored
        self._extents: dict[Var, Expr] = {}
        self._reductions: dict[Array, FusedReduction] = {}
        self._read: list[Load] = []  # elements that the kernel reads, with reductions not yet followed
        self.read_through: dict[Array, Array] = {}  # for each reduction, the outermost map of the reader of it

    def kernel(self, array: Array) -> FusedKernel:
        """The kernel that stores an array."""
        axes = self._new_axes(_axes_of(array), array.shape)
        if isinstance(array.definition, Reduction):
            body: Expr = self._join(array, axes).result
        else:
            assert isinstance(array.definition, Map)
            inlined = self._inlined(body_at(array, axes))
            self._read += loads_of(inlined)
            body = self._with_reductions(inlined)
        return FusedKernel(self._extents, tuple(self._reductions.values()), (Output(array, axes, body),))

    def _new_axes(self, axes: Sequence[Var], extents: Sequence[Expr]) -> tuple[Var, ...]:
        new = tuple(Var(axis.name, axis.dtype, index=True) for axis in axes)
        self._extents.update(zip(new, extents, strict=True))
        return new

    @property
    def _domain(self) -> Domain:
        return Domain().with_extents(self._extents, self._extents.values())

    def _inlined(self, body: Expr) -> Expr:
        """A body in which every map is replaced by its own body; reductions stay as reads."""
        return simplify(_Inliner(self._stored, self.read_through).expr(body), self._domain)

    def _join(self, array: Array, axes: tuple[Var, ...]) -> FusedReduction:
        """Makes a reduction part of the kernel."""
        definition = array.definition
        assert isinstance(definition, Reduction)
        before = dict(self._extents)
        reduced = self._new_axes(definition.reduced, definition.extents)
        places = dict(zip(definition.axes + definition.reduced, axes + reduced, strict=True))
        inlined = self._inlined(substitute(definition.body, places))
        shared = self._shared_axes(reduced, axes, loads_of(inlined), before)
        if shared:
            inlined = substitute(inlined, shared)
            self._extents = {axis: extent for axis, extent in self._extents.items() if axis not in shared}
            reduced = tuple(shared.get(axis, axis) for axis in reduced)  # type: ignore[misc]
        self._read += loads_of(inlined)
        body = self._with_reductions(inlined)
        made = self._reductions[array] = FusedReduction(array, axes, reduced, definition.combiner, body)
        return made

    def _shared_axes(
        self, reduced: Sequence[Var], axes: Sequence[Var], loads: Sequence[Load], before: Mapping[Var, Expr]
    ) -> dict[Var, Expr]:
        """Axes of the kernel in place of reduced ones, such that both sides read the same elements."""
        for load in loads:
            for other in self._read:
                if other.buffer is load.buffer:
                    found = _unified(load.indices, other.indices, set(reduced), before)
                    if not found or len(found) < len(reduced):
                        continue
                    if set(found.values()).isdisjoint(axes) and self._same_extents(found, before):
                        return dict(found)
        return {}

    def _same_extents(self, found: Mapping[Var, Var], before: Mapping[Var, Expr]) -> bool:
        return all(expr_key(self._extents[axis]) == expr_key(before[other]) for axis, other in found.items())

    # -- reductions that are read ---------------------------------------------------------------------------------
    def _with_reductions(self, body: Expr) -> Expr:
        return self.expr(body)

    def expr(self, node: Expr) -> Expr:
        """Follows reads of reductions, each of which joins the kernel or is stored."""
        if isinstance(node, Load) and isinstance(node.buffer, Array) and _may_join(node.buffer, self._stored):
            return self._joined(node.buffer, node.indices).result
        return self.rebuild_expr(node)

    def _joined(self, array: Array, indices: tuple[Expr, ...]) -> FusedReduction:
        known = self._reductions.get(array)
        axes = tuple(index for index in indices if isinstance(index, Var) and index in self._extents)
        if known is not None:
            if not all(map(operator.is_, known.axes, indices)):
                raise _MustStore(array)
            return known
        whole = len(set(axes)) == len(indices) and all(
            expr_key(self._extents[axis]) == expr_key(extent) for axis, extent in zip(axes, array.shape, strict=True)
        )
        if not whole:
            raise _MustStore(array)
        return self._join(array, axes)


class _Inliner(Rewriter):
    def __init__(self, stored: set[Array], read_through: dict[Array, Array]) -> None:
        self._stored, self._read_through = stored, read_through
        self._outermost: Array | None = None

    def expr(self, node: Expr) -> Expr:
        if not isinstance(node, Load) or not isinstance(node.buffer, Array):
            return self.rebuild_expr(node)
        array, indices = node.buffer, self.exprs(node.indices)
        if isinstance(array.definition, Map) and array not in self._stored:
            outer, self._outermost = self._outermost, self._outermost or array
            try:
                return self.expr(body_at(array, indices))
            finally:
                self._outermost = outer
        if self._outermost is not None:
            self._read_through.setdefault(array, self._outermost)
        if isinstance(array.definition, Reduction) and array not in self._stored and _is_empty(array.definition):
            return Const(array.definition.combiner.neutral(array.dtype), array.dtype)
        return node if indices is node.indices else Load(array, indices, node.dtype)


def _is_empty(definition: Reduction) -> bool:
    return any(int_const(extent) == 0 for extent in definition.extents)


def _may_join(array: Array, stored: set[Array]) -> bool:
    return array not in stored and isinstance(array.definition, Reduction)


def _axes_of(array: Array) -> tuple[Var, ...]:
    assert isinstance(array.definition, Map | Reduction)
    return array.definition.axes


def _unified(
    pattern: Sequence[Expr], other: Sequence[Expr], free: set[Var], axes: Mapping[Var, Expr]
) -> dict[Var, Var] | None:
    """Which axes the free ones of a pattern must be for both index tuples to be the same; None if none fit."""
    found: dict[Var, Var] = {}
    for a, b in _pairs(pattern, other):
        if isinstance(a, Var) and a in free:
            if not (isinstance(b, Var) and b in axes and found.setdefault(a, b) is b):
                return None
        elif not children(a) and expr_key(a) != expr_key(b) or type(a) is not type(b):
            return None
    return found if len(set(found.values())) == len(found) else None


def _pairs(a: Sequence[Expr], b: Sequence[Expr]) -> Iterator[tuple[Expr, Expr]]:
    """Corresponding nodes of two lists of expressions."""
    for x, y in zip(a, b, strict=True):
        yield x, y
        if len(children(x)) == len(children(y)):
            yield from _pairs(children(x), children(y))
