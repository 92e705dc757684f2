"""Groups the arrays of a graph into kernels.

A kernel is built from an array that is stored: maps are inlined into their readers, and a reduction is fused into the
kernel of its reader if the reader's axes are its own. Reduced axes of two reductions are unified where both read the
same elements, so that softmax and the gemm after it share one loop. What cannot be fused is stored to memory.
Invariant: every array of `stored` is computed by exactly one kernel, before the kernels that read it.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce

from tilelang.arith.domain import Domain
from tilelang.arith.simplify import simplify
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Buffer
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Binary, Const, Expr, Load, Var, as_expr, cast, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import Rewriter, children, loads_of, substitute, variables_of
from tilelang.level1.contraction import contraction
from tilelang.level1.fused import ZERO, FusedKernel, FusedReduction, Output
from tilelang.level1.graph import (
    Array,
    Graph,
    Map,
    Parameter,
    Reduction,
    Scan,
    Scatter,
    Sort,
    axes_for,
    body_at,
    element,
    same_axes,
)

MAX_AXIS_IN_BLOCK = 512  # elements of an axis that a block may hold whole, beside a tile of another axis
MIN_BUSY_ROWS = 64  # rows that keep the machine busy, where a block reduces one or more of them
MAX_SMALL_ELEMENTS = 1 << 16  # of an array for which another launch costs more than idle multiprocessors
_MAX_ROUNDS = 100


class _MustStore(Exception):
    """An array cannot be computed where it is read."""

    def __init__(self, array: Array) -> None:
        super().__init__(array.name)
        self.array = array


def fused_kernels(graph: Graph, materialized: Iterable[Array] = ()) -> list[FusedKernel]:
    """The kernels of a graph, in an order in which they can run; arrays without elements need none.

    Args:
        graph: The computation.
        materialized: Arrays that must be stored, beside the results.
    """
    required = {*materialized, *(array for array in graph.results if not isinstance(array.definition, Parameter))}
    required |= {a for a in graph.arrays if not isinstance(a.definition, Map | Reduction | Parameter)}
    stored = set(required)
    for _ in range(_MAX_ROUNDS):
        try:
            kernels = _kernels([array for array in graph.arrays if array in stored and not _has_zero(array.shape)])
        except _MustStore as found:
            stored.add(found.array)
            continue
        unread = stored - required - {load.buffer for kernel in kernels for load in kernel.loads}
        return [kept for kernel in kernels if (kept := kernel.without(unread)).outputs]
    raise AssertionError("every round stores one more array, and a graph has fewer")


def _kernels(stored: Sequence[Array]) -> list[FusedKernel]:
    """The kernels that compute arrays, each of which reads only earlier ones.

    Raises:
        _MustStore: A further array must be stored.
    """
    groups: list[_KernelBuilder] = []
    for array in stored:
        after = max((n + 1 for n, group in enumerate(groups) if group.is_read_by(array)), default=0)
        if isinstance(array.definition, Scatter):
            groups.append(_KernelBuilder(set(stored), array))
            if not _has_zero(array.definition.extents):
                groups.append(_KernelBuilder(set(stored), array, array.definition))
        elif not any(group.try_add(array) for group in groups[max(after - 1, 0) :]):
            groups.append(_KernelBuilder(set(stored), array))
    return [group.kernel for group in groups]


# by a reduction (None for an output) and an array that its body reads: the outermost map that is inlined between them
_ReadThrough = Mapping[tuple[Array | None, Array], Array]


def _check_feasible(kernel: FusedKernel, read_through: _ReadThrough) -> None:
    """Checks that one loop can compute a kernel.

    Raises:
        _MustStore: A reduction must be stored, or the array through which it is read.
    """
    streamed = set(kernel.streamed)
    kept = {axis for reduction in kernel.reductions for axis in reduction.axes}
    kept |= {axis for output in kernel.outputs for axis in output.axes}
    for reduction in kernel.reductions:
        if set(reduction.reduced) == streamed:
            continue
        shares = not streamed.isdisjoint(reduction.reduced)
        whole = contraction(reduction) is None
        held = [axis for axis in reduction.reduced if whole or axis in kept]  # a gemm can loop over others
        sizes = [int_const(kernel.extents[axis]) for axis in held]
        large = not all(size is not None and size <= MAX_AXIS_IN_BLOCK for size in sizes)
        if shares or large:
            raise _MustStore(_boundary(kernel, reduction, read_through))
    for axis in kernel.sequences:
        size = int_const(kernel.extents[axis])
        for reduction in kernel.reductions:
            if axis in set(reduction.axes) and (size is None or size > MAX_AXIS_IN_BLOCK):
                raise _MustStore(reduction.array)
    for axis in kernel.parallel:
        size = int_const(kernel.extents[axis])
        if axis not in set(kernel.grid) and (size is None or size > MAX_AXIS_IN_BLOCK):
            lacking = next(r for r in kernel.reductions if axis not in set(r.axes))
            raise _MustStore(_boundary(kernel, lacking, read_through))


def _writes_once(kernel: FusedKernel) -> bool:
    """Whether no element is written by several blocks."""
    return all(set(kernel.grid) <= set(output.axes) for output in kernel.outputs)


def _is_as_parallel(kernel: FusedKernel, old: FusedKernel) -> bool:
    """Whether a kernel with a further output has as many blocks as before, or enough of them."""
    if same_axes(kernel.grid, old.grid) and same_axes(kernel.streamed, old.streamed):
        return True
    rows, elements = (math.prod(int_const(k.extents[a]) or MAX_AXIS_IN_BLOCK for a in k.grid) for k in (kernel, old))
    return not old.reductions and not old.sequences and (rows >= MIN_BUSY_ROWS or elements <= MAX_SMALL_ELEMENTS)


def _boundary(kernel: FusedKernel, reduction: FusedReduction, read_through: _ReadThrough) -> Array:
    """The array to store so that a reduction leaves the kernel: the map that reads it, unless that is larger.

    The whole operand of a gemm is stored, so that blocks do not compute it again.
    """
    own = reduction.array
    readers = [r for r in kernel.reductions if reduction in kernel.reads(r.body)]
    for product in (r for r in readers if contraction(r) is not None):
        return read_through.get((product.array, own), own)
    outer = next((outer for (_, source), outer in read_through.items() if source is own), own)
    extents = [[int_const(extent) or MAX_AXIS_IN_BLOCK for extent in array.shape] for array in (outer, own)]
    return outer if math.prod(extents[0]) <= math.prod(extents[1]) else own


class _KernelBuilder(Rewriter):
    """Builds one kernel from the first array that it stores."""

    def __init__(self, stored: set[Array], first: Array, updates: Scatter | None = None) -> None:
        self._stored = stored
        self._extents: dict[Var, Expr] = {}
        self._reductions: dict[Array, FusedReduction] = {}
        self._outputs: list[Output] = []
        self._read: list[Load] = []  # the kernel's loads, of arrays in memory and of reductions that are not fused yet
        self._read_through: dict[tuple[Array | None, Array], Array] = {}
        if updates is None:
            self._store(first, self._new_axes(_axes_of(first), _iterated(first)))
        else:
            self._update(first, updates)
        _check_feasible(self.kernel, self._read_through)

    @property
    def kernel(self) -> FusedKernel:
        """The kernel as built so far."""
        return FusedKernel(self._extents, tuple(self._reductions.values()), tuple(self._outputs))

    def is_read_by(self, array: Array) -> bool:
        """Whether an array depends on what the kernel stores."""
        own, stack, seen = {output.array for output in self._outputs}, [array], set[Array]()
        while stack:
            for source in stack.pop().sources:
                if source in own:
                    return True
                if source not in seen:
                    seen.add(source)
                    stack.append(source)
        return False

    def try_add(self, array: Array) -> bool:
        """Adds a further output, if it reads the same elements over the same axes; tells whether it was added."""
        before = (self._extents, self._reductions, self._outputs, self._read, self._read_through)
        old = self.kernel
        self._extents, self._reductions = dict(self._extents), dict(self._reductions)
        self._outputs, self._read, self._read_through = list(self._outputs), list(self._read), dict(self._read_through)
        try:
            axes = self._new_axes(_axes_of(array), _iterated(array))
            own = {axis for axis in axes if isinstance(axis, Var)}
            shared = self._unifiable_axes(own, self._loads_of_definition(array, axes), old.extents)
            if shared or not own:
                new = {axis: self._extents[axis] for axis in own if axis not in shared}
                self._extents = {**old.extents, **new}
                self._store(array, tuple(substitute(axis, shared) for axis in axes))
                _check_feasible(self.kernel, self._read_through)
                if _writes_once(self.kernel) and _is_as_parallel(self.kernel, old):
                    return True
        except _MustStore:
            pass
        self._extents, self._reductions, self._outputs, self._read, self._read_through = before
        return False

    def _loads_of_definition(self, array: Array, axes: Sequence[Expr]) -> tuple[Load, ...]:
        """The loads of an array's definition, through maps and fused reductions."""
        definition = array.definition
        if not isinstance(definition, Reduction):
            loads = loads_of(self._inlined(_body_of(array, axes)))
            followed = [load for load in loads if self._is_followed(load.buffer)]
            inner = (self._loads_of_definition(load.buffer, load.indices) for load in followed)  # type: ignore[arg-type]
            return (*loads, *itertools.chain.from_iterable(inner))
        own = dict(zip(definition.axes, axes, strict=True))
        reduced = self._new_axes(definition.reduced, [substitute(extent, own) for extent in definition.extents])
        places = dict(zip(definition.axes + definition.reduced, (*axes, *reduced), strict=True))
        return loads_of(self._inlined(substitute(definition.body, places)))

    def _unifiable_axes(self, own: set[Var], loads: Sequence[Load], before: Mapping[Var, Expr]) -> dict[Var, Expr]:
        """The axes of the kernel that an array's own can be, by the load that both have and that matches most axes."""
        best: dict[Var, Var] = {}
        new = {axis for axis in self._extents if axis not in before}
        for load in loads:
            for other in self._read:
                if other.buffer is load.buffer:
                    found = _unify(load.indices, other.indices, new, before) or {}
                    mine = {axis: place for axis, place in found.items() if axis in own}
                    if len(mine) > len(best) and self._same_extents(mine, before):
                        best = mine
        return dict(best)

    def _store(self, array: Array, axes: tuple[Expr, ...]) -> None:
        """Adds an output."""
        definition = array.definition
        own = tuple(axis for axis in axes if isinstance(axis, Var))
        if isinstance(definition, Reduction):
            body = self._fused_result(array, axes)
            self._outputs.append(Output(array, axes, own, body))
            return
        inlined = self._inlined(_body_of(array, axes))
        if isinstance(definition, Map):
            axes, inlined = self._with_split_axes(axes, inlined)
            own = tuple(dict.fromkeys(axis for index in axes for axis in self._extents if axis in variables_of(index)))
        self._read += loads_of(inlined)
        body = self.expr(inlined)
        if isinstance(definition, Scan | Sort):
            along = axes[definition.along]
            assert isinstance(along, Var)
            self._outputs.append(Output(array, axes, own, body, definition, along))
        else:
            self._outputs.append(Output(array, axes, own, body))

    def _with_split_axes(self, axes: tuple[Expr, ...], body: Expr) -> tuple[tuple[Expr, ...], Expr]:
        """Splits an axis whose quotient and remainder are indices of a reduction, as after a reshape, into two."""
        indices = [i for load in loads_of(body) if self._is_followed(load.buffer) for i in load.indices]
        for index in indices:
            match index:
                case Binary(op=BinaryOp.FLOORMOD, a=Var() as axis, b=Const(value=size)) if axis in self._extents:
                    extent = int_const(self._extents[axis])
                    if extent is None or extent % int(size) or extent == size:
                        continue
                    outer, inner = (Var(f"{axis.name}{n}", axis.dtype, index=True) for n in range(2))
                    sizes = {outer: as_expr(extent // int(size)), inner: as_expr(int(size))}
                    self._extents = {
                        new: e
                        for old, extents in self._extents.items()
                        for new, e in (sizes.items() if old is axis else [(old, extents)])
                    }
                    places = {axis: outer * int(size) + inner}
                    changed = tuple(substitute(each, places) for each in axes)
                    return self._with_split_axes(changed, simplify(substitute(body, places), self._domain))
        return axes, body

    def _is_followed(self, buffer: Buffer) -> bool:
        """Whether an array is a reduction that may be fused into the kernel."""
        stored = self._stored - {output.array for output in self._outputs}
        return isinstance(buffer, Array) and isinstance(buffer.definition, Reduction) and buffer not in stored

    def _update(self, array: Array, definition: Scatter) -> None:
        """Adds the updates of a scatter."""
        axes = self._new_axes(definition.axes, definition.extents)
        places = dict(zip(definition.axes, axes, strict=True))
        *indices, body = (self._inlined(substitute(e, places)) for e in (*definition.indices, definition.body))
        self._read += loads_of(body)
        own = tuple(axis for axis in axes if isinstance(axis, Var))
        self._outputs.append(Output(array, tuple(map(self.expr, indices)), own, self.expr(body), definition))

    def _new_axes(self, axes: Sequence[Var], extents: Sequence[Expr]) -> tuple[Expr, ...]:
        """New axes of the kernel; those of extent 1 are the index 0."""
        new = tuple(
            ZERO if int_const(extent) == 1 else Var(axis.name, axis.dtype, index=True)
            for axis, extent in zip(axes, extents, strict=True)
        )
        self._extents |= {axis: e for axis, e in zip(new, extents, strict=True) if isinstance(axis, Var)}
        return new

    @property
    def _domain(self) -> Domain:
        return Domain().with_extents(self._extents, self._extents.values())

    def _inlined(self, body: Expr, reader: Array | None = None) -> Expr:
        """A body with maps inlined; `reader` is the reduction whose body it is, if it is one."""
        stored = self._stored - {output.array for output in self._outputs}
        inliner = _Inliner(stored)
        inlined = simplify(inliner.expr(body), self._domain)
        for source, outermost in inliner.read_through.items():
            self._read_through.setdefault((reader, source), outermost)
        return inlined

    def _add_reduction(self, array: Array, indices: Sequence[Expr]) -> Expr:
        """Adds a reduction to the kernel; gives a read of its result."""
        definition = array.definition
        assert isinstance(definition, Reduction)
        if _has_zero(definition.extents):
            return Const(definition.combiner.neutral(array.dtype), array.dtype)
        before = dict(self._extents)
        own = dict(zip(definition.axes, indices, strict=True))
        new = self._new_axes(definition.reduced, [substitute(extent, own) for extent in definition.extents])
        places = dict(zip(definition.axes + definition.reduced, (*indices, *new), strict=True))
        inlined = self._inlined(substitute(definition.body, places), array)
        axes = tuple(index for index in indices if isinstance(index, Var))
        reduced = tuple(axis for axis in new if isinstance(axis, Var))
        if definition.combiner.gives_index and len(reduced) > 1:
            reduced, inlined = self._flattened(reduced, inlined)
        if not reduced:
            return cast(0, array.dtype) if definition.combiner.gives_index else self.expr(inlined)
        shared = self._shared_axes(reduced, axes, loads_of(inlined), before)
        if shared:
            inlined = substitute(inlined, shared)
            self._extents = {axis: extent for axis, extent in self._extents.items() if axis not in shared}
            reduced = tuple(shared.get(axis, axis) for axis in reduced)  # type: ignore[misc]
        self._read += loads_of(inlined)
        made = FusedReduction(array, axes, reduced, definition.combiner, self.expr(inlined))
        self._reductions[array] = made
        return made.result

    def _flattened(self, reduced: Sequence[Var], body: Expr) -> tuple[tuple[Var, ...], Expr]:
        """Flattens the reduced axes, along which arg reductions count positions, into one."""
        extents = [self._extents.pop(axis) for axis in reduced]
        flat = Var(reduced[-1].name, reduced[-1].dtype, index=True)
        self._extents[flat] = simplify(reduce(operator.mul, extents))
        places: dict[Var, Expr] = {}
        rest: Expr = flat
        for axis, extent in list(zip(reduced, extents, strict=True))[:0:-1]:
            places[axis], rest = rest % extent, rest // extent
        places[reduced[0]] = rest
        return (flat,), simplify(substitute(body, places), self._domain)

    def _shared_axes(
        self, reduced: Sequence[Var], axes: Sequence[Var], loads: Sequence[Load], before: Mapping[Var, Expr]
    ) -> dict[Var, Expr]:
        """The axes of the kernel that reduced axes can be, as both index the same elements; empty if there are none."""
        for load in loads:
            for other in self._read:
                if other.buffer is load.buffer:
                    found = _unify(load.indices, other.indices, set(reduced), before)
                    if not found or len(found) < len(reduced):
                        continue
                    if set(found.values()).isdisjoint(axes) and self._same_extents(found, before):
                        return dict(found)
        return {}

    def _same_extents(self, found: Mapping[Var, Var], before: Mapping[Var, Expr]) -> bool:
        return all(expr_key(self._extents[axis]) == expr_key(before[other]) for axis, other in found.items())

    # -- reductions that are read ---------------------------------------------------------------------------------
    def expr(self, node: Expr) -> Expr:
        """Replaces reads of reductions, which are fused into the kernel or stored."""
        if isinstance(node, Load) and self._is_followed(node.buffer):
            assert isinstance(node.buffer, Array)
            return self._fused_result(node.buffer, node.indices)
        return self.rebuild_expr(node)

    def _fused_result(self, array: Array, indices: tuple[Expr, ...]) -> Expr:
        """The result of a reduction at indices that are axes of the kernel.

        Raises:
            _MustStore: They are no axes of the kernel, or the kernel has the reduction at other axes.
        """
        own = [index for index, extent in zip(indices, array.shape, strict=True) if int_const(extent) != 1]
        known = self._reductions.get(array)
        if known is not None:
            if not same_axes(known.axes, own):
                raise _MustStore(array)
            return known.result
        axes = [index for index in own if isinstance(index, Var) and index in self._extents]
        extents = [extent for extent in array.shape if int_const(extent) != 1]
        places = dict(zip(_axes_of(array), indices, strict=True))
        if len(set(axes)) < len(own) or not all(
            expr_key(self._extents[axis]) == expr_key(substitute(extent, places))
            for axis, extent in zip(axes, extents, strict=True)
        ):
            raise _MustStore(array)
        return self._add_reduction(array, indices)


class _Inliner(Rewriter):
    """Replaces reads of maps by their bodies.

    Attributes:
        read_through: For each array that is read through maps, the outermost of them.
    """

    def __init__(self, stored: set[Array]) -> None:
        self._stored = stored
        self.read_through: dict[Array, Array] = {}
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
            self.read_through.setdefault(array, self._outermost)
        return node if indices is node.indices else Load(array, indices, node.dtype)


def _has_zero(extents: Iterable[Expr]) -> bool:
    """Whether there are no elements over these extents."""
    return 0 in map(int_const, extents)


def _axes_of(array: Array) -> tuple[Var, ...]:
    if isinstance(array.definition, Scatter):
        return axes_for(array.shape)
    if isinstance(array.definition, Map | Reduction | Scan | Sort):
        return array.definition.axes
    raise ProgramError(f"{array.name}: calls of Level 2 kernels cannot be lowered with other computations")


def _iterated(array: Array) -> tuple[Expr, ...]:
    """The extents of the axes over which an array is computed; a top-k reads more elements than it stores."""
    shape = list(array.shape)
    if isinstance(array.definition, Sort):
        shape[array.definition.along] = array.definition.extent
    return tuple(shape)


def _body_of(array: Array, axes: Sequence[Expr]) -> Expr:
    """The body of an array's definition over other axes; of a reduction, a read of the result."""
    definition = array.definition
    if isinstance(definition, Reduction):
        return element(array, axes)
    if isinstance(definition, Scatter):  # what it is before the updates
        return element(definition.base, axes)
    assert isinstance(definition, Map | Scan | Sort)
    return substitute(definition.body, dict(zip(definition.axes, axes, strict=True)))


def _unify(
    pattern: Sequence[Expr], other: Sequence[Expr], free: set[Var], axes: Mapping[Var, Expr]
) -> dict[Var, Var] | None:
    """The substitution of free axes that makes a pattern equal to other indices; None if there is none."""
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
