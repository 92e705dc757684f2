"""The statements of a block: tiles, loops over them, copies from and to memory, and element-by-element loops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import ChainMap, Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tilelang.arith.prove import proves
from tilelang.dtypes import DType
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Binary, Call, Const, Expr, Load, Select, Var, conjunction, int_const, select
from tilelang.ir.print_expr import ExprPrinter
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import children, loads_of, variables_of
from tilelang.level1.common_subexpressions import hoist_common_subexpressions
from tilelang.level1.contraction import without_widening
from tilelang.level1.fused import ZERO, FusedKernel, FusedReduction
from tilelang.level1.graph import Array, same_axes
from tilelang.level1.launch_text import INDENT, count_text
from tilelang.level1.loop_bounds import ReducedBody, loop_range
from tilelang.level1.placement import ONE, Placement, Tiling, next_origin
from tilelang.level1.tile_list_text import visiting_lines
from tilelang.level1.tile_values import TileValues, read_tile
from tilelang.level1.visited_tiles import VisitedTiles


class BlockText(ABC):
    """Writes the statements of a block; subclasses compute the reductions that expressions read."""

    def __init__(
        self,
        kernel: FusedKernel,
        tiling: Tiling,
        placement: Placement,
        names: ExprPrinter,
        visited: VisitedTiles | None = None,
        kept: Sequence[Load] = (),
    ) -> None:
        self._kernel, self._tiling, self._placement, self._names = kernel, tiling, placement, names
        self._visited, self._kept = visited, kept
        self._values = TileValues(placement)
        self._allocations: list[str] = []
        # statements of the kernel, then of each open loop; the loads of a loop come first in its body
        self._blocks: list[list[str]] = [[]]
        self._loads = [0]
        self._shared_values: set[ExprKey] = set()

    @abstractmethod
    def _ensure_computed(self, reduction: FusedReduction) -> None:
        """Computes a reduction that an expression reads, if no tile holds it."""

    # -- loops ----------------------------------------------------------------------------------------------------
    def _count(self, var: Var, extent: Expr) -> str:
        """The number of blocks, or of loop iterations, along an axis."""
        return count_text(var, extent, self._values, self._names)

    @contextmanager
    def _loop(self, axes: Sequence[Var], combined: Sequence[ReducedBody]) -> Iterator[None]:
        """Writes loops over the tiles of axes around the statements written inside; `combined` bounds their ranges."""
        headers: list[str] = []
        first: list[str] = []
        for axis in axes:
            step = self._placement.steps[axis]
            if self._visited is not None and axis is self._visited.axis:
                stages = self._tiling.stages
                before, header, *first = visiting_lines(self._visited, self._placement, stages, self._names)
                self._write(before)
                headers.append(header)
                continue
            place = self._placement.places[axis]
            start, stop = "", self._count(step, place.extent)
            if combined:
                start, stop = loop_range(axis, combined, self._values, stop, self._names, self._kernel.by_array)
            bounds = f"{start}, {stop}" if start else stop
            last = axis is axes[-1]
            pipelined = last and not self._kept
            kind = f"T.Pipelined({bounds}, num_stages={self._tiling.stages})" if pipelined else f"T.serial({bounds})"
            headers.append(f"for {self._names.name(step)} in {kind}:")
        self._values.enter()
        self._blocks.append([])
        self._loads.append(0)
        yield
        body = self._blocks.pop()
        self._loads.pop()
        self._values.leave()
        for depth, header in enumerate(headers):
            self._write(INDENT * depth + header)
        for line in (*first, *body):
            self._write(INDENT * len(headers) + line)

    @contextmanager
    def _before_loops(self) -> Iterator[None]:
        """Statements written inside go before all open loops."""
        blocks, loads, known = self._blocks, self._loads, self._values.known
        self._blocks, self._loads, self._values.known = blocks[:1], loads[:1], ChainMap(known.maps[-1])
        yield
        self._blocks, self._loads, self._values.known = blocks, loads, known

    def _is_loop_variant(self, expr: Expr) -> bool:
        """Whether an expression may change from one loop iteration to the next."""
        if any(axis in self._placement.steps for axis in variables_of(expr)):
            return True
        read = [load.buffer for load in loads_of(expr)]
        if not all(isinstance(buffer, Array) for buffer in read):
            return True
        streamed = set(self._kernel.streamed)
        reads = self._kernel.reads(expr)
        return any(not streamed.isdisjoint(r.reduced) or self._is_loop_variant(r.body) for r in reads)

    def _plain_load(self, expr: Expr) -> Load | None:
        """The load, if an expression is one of global memory whose tiled indices are distinct axes plus offsets."""
        if not isinstance(expr, Load) or expr.buffer.scope.on_chip or expr_key(expr) in self._values.known:
            return None
        axes = [self._offset_and_axis(index)[1] for index in expr.indices if self._values.dims_of(index)]
        return expr if axes and None not in set(axes) and len(set(axes)) == len(axes) else None

    def _offset_and_axis(self, index: Expr) -> tuple[Expr | None, Var | None]:
        """The offset and the axis of an index `offset + axis`; the axis is None for an index of another form."""
        match index:
            case Var():
                return None, index
            case Binary(op=BinaryOp.ADD, a=Var() as axis, b=offset) if not self._values.dims_of(offset):
                return offset, axis
            case Binary(op=BinaryOp.ADD, a=offset, b=Var() as axis) if not self._values.dims_of(offset):
                return offset, axis
        return None, None

    def _is_zero_padded(self, load: Load) -> bool:
        """Whether a plain load past the ends of ragged axes is also out of bounds of the array, where loads give 0."""
        for index, size in zip(load.indices, load.buffer.shape, strict=True):
            offset, axis = self._offset_and_axis(index)
            if offset is None or axis is None or axis not in self._placement.steps:
                continue
            extent, block = self._placement.places[axis].extent, self._tiling.blocks[axis]
            ends: list[Expr] = [extent]
            if isinstance(extent, Binary) and extent.op is BinaryOp.MIN:
                ends = [extent.a, extent.b]
            for end in ends:  # a range ends where a tile ends, or with the array
                whole = int_const(end)
                if not (whole is not None and whole % block == 0 or proves(offset + end >= size, self._kernel.domain)):
                    return False
        return True

    def _tile_axes(self, load: Load) -> list[Var]:
        """The tiled axes of a plain load, in the order of its dimensions."""
        axes = [self._offset_and_axis(index)[1] for index in load.indices if self._values.dims_of(index)]
        return [axis for axis in axes if axis is not None]

    def _region(self, load: Load, whole: Var | None = None) -> str:
        """The region of an array that a tile of a plain load covers; all of the axis `whole`."""
        tiled = [bool(self._values.dims_of(index)) for index in load.indices]
        trailing = all(tiled[tiled.index(True) :])
        parts = []
        for index, has_tile in zip(load.indices, tiled, strict=True):
            if not has_tile:
                parts.append(self._text(self._values.localized(index)))
                continue
            offset, axis = self._offset_and_axis(index)
            assert axis is not None
            place = self._placement.places[axis]
            start, stop = (ZERO, place.extent) if axis is whole else (place.origin, next_origin(place))
            if offset is not None:
                base = self._values.localized(offset)
                start, stop = base if int_const(start) == 0 else base + start, base + stop
            parts.append(self._text(start) if trailing else f"{self._text(start)}:{self._text(stop)}")
        return f"{self._names.name(load.buffer)}[{', '.join(parts)}]"

    # -- tiles ----------------------------------------------------------------------------------------------------
    def _materialize(self, expr: Expr, name: str, dims: Sequence[Var], neutral: Const | None = None) -> Load:
        """The tile that holds an expression, computed if there is none; padded with the neutral value if given."""
        held = self._values.tile_of(expr)
        if held is not None and same_axes(held.indices, dims) and held.buffer.scope is Scope.FRAGMENT:
            if neutral is None or self._masked(expr, dims, neutral) is expr:
                return held
        for other in self._kernel.reads(expr):
            self._ensure_computed(other)
        load = self._plain_load(without_widening(expr))
        buffer = self._fragment(name if load is None else f"{load.buffer.name}_tile", dims, expr.dtype)
        ragged = self._ragged(dims)
        if load is not None and same_axes(self._tile_axes(load), dims) and (
            neutral is None or not ragged or neutral.value == 0 and self._is_zero_padded(load)
        ):
            self._write_load(expr, f"T.copy({self._region(load)}, {self._names.name(buffer)})")
            padding: float | None = 0.0
        else:
            self._assign(read_tile(buffer, dims), dims, expr if neutral is None else self._masked(expr, dims, neutral))
            padding = None if neutral is None else float(neutral.value)
        self._values.hold(expr, buffer, dims, loop_variant=self._is_loop_variant(expr), padding=padding)
        return read_tile(buffer, dims)

    def _load_rows(self, load: Load) -> None:
        """Copies whole rows of a plain load to shared memory, where loops read them."""
        *rows, axis = self._tile_axes(load)
        place, size = self._placement.places[axis], self._text(self._placement.block_names[axis])
        sizes = tuple(self._placement.places[row].size for row in rows)
        assert isinstance(load.buffer, Array)
        buffer = Buffer(f"{load.buffer.name}_row", (*sizes, place.extent), load.buffer.stored_dtype, Scope.SHARED)
        shape = [*map(self._text, sizes), f"T.ceildiv({self._text(place.extent)}, {size}) * {size}"]
        name, shown = self._names.name(buffer), f"({', '.join(shape)})" if rows else f"({shape[0]},)"
        self._allocations.append(f'{name} = T.alloc_shared({shown}, "{buffer.dtype!s}")')
        self._write(f"T.copy({self._region(load, axis)}, {name})")
        self._values.known[expr_key(load)] = Load(buffer, (*rows, place.point), load.dtype)

    def _find_shared_values(self, bodies: Sequence[Expr]) -> None:
        """Records the subexpressions of global memory that several bodies have, to compute each once, into a tile."""
        counts = Counter(key for body in bodies for key in set(self._memory_values(body)))
        self._shared_values = {key for key, count in counts.items() if count > 1}

    def _memory_values(self, expr: Expr) -> Iterator[ExprKey]:
        """The subexpressions that vary over a tile and read global memory, but no reduction."""
        inner = without_widening(expr)
        if not self._values.dims_of(inner) or isinstance(inner, Var):
            return
        loads = loads_of(inner)
        if inner.dtype.is_float and loads and not any(load.buffer in self._kernel.by_array for load in loads):
            yield expr_key(expr)
        if not isinstance(inner, Load):
            for child in children(inner):
                yield from self._memory_values(child)

    def _materialize_shared_values(self, expr: Expr) -> None:
        """Computes tiles of the largest subexpressions that other bodies share."""
        if expr_key(expr) in self._values.known:
            return
        if expr_key(expr) in self._shared_values:
            self._materialize(expr, "value", self._memory_order(expr, self._values.dims_of(expr)))
            return
        for child in () if isinstance(expr, Load) else children(expr):
            self._materialize_shared_values(child)

    def _materialize_row_values(self, expr: Expr, dims: Sequence[Var]) -> None:
        """Computes costly subexpressions that vary along fewer axes than the tile into smaller tiles, once."""
        own = self._values.dims_of(expr)
        if expr_key(expr) in self._values.known or not own:
            return
        if len(own) < len(dims) and _is_costly(expr) and loads_of(expr):
            self._materialize(expr, "value", own)
            return
        for child in () if isinstance(expr, Load) else children(expr):
            self._materialize_row_values(child, dims)

    def _memory_order(self, body: Expr, dims: Sequence[Var]) -> list[Var]:
        """The axes of a tile, ordered as the load with most of them orders them, so that accesses coalesce."""
        loads = (self._plain_load(load) for load in loads_of(body))
        orders = [self._tile_axes(load) for load in loads if load is not None]
        longest = max(orders, key=len, default=[])
        others = [axis for axis in dims if not any(axis is each for each in longest)]
        return [*others, *(axis for axis in longest if any(axis is each for each in dims))]

    def _ragged(self, dims: Sequence[Var]) -> frozenset[Var]:
        """The axes of a tile whose padding matters: those that a loop reduces."""
        return frozenset(axis for axis in dims if axis in self._placement.steps)

    def _masked(self, expr: Expr, dims: Sequence[Var], neutral: Const) -> Expr:
        """The expression, with the neutral value past the ends of ragged axes."""
        ragged = self._ragged(dims)
        if not ragged or self._values.padding(expr, ragged) == neutral.value:
            return expr
        conditions = [axis < self._placement.places[axis].extent for axis in dims if axis in ragged]
        match expr:
            case Select(condition=condition, a=a, b=Const(value=value)) if value == neutral.value:
                masked = None if self._visited is None else self._visited.in_mask(condition)
                if self._visited is None or masked is None:
                    return select(conjunction([*conditions, condition]), a, neutral)
                return select(self._visited.unless_whole(conjunction([*conditions, masked])), a, neutral)
        return select(conjunction(conditions), expr, neutral)

    def _fragment(self, name: str, dims: Sequence[Var], dtype: DType) -> Buffer:
        return self._allocate(name, dims, dtype, Scope.FRAGMENT, "fragment")

    def _shared(self, name: str, dims: Sequence[Var], dtype: DType) -> Buffer:
        return self._allocate(f"{name}_shared", dims, dtype, Scope.SHARED, "shared")

    def _allocate(self, name: str, dims: Sequence[Var], dtype: DType, scope: Scope, kind: str) -> Buffer:
        return self._tile(name, tuple(self._placement.places[axis].size for axis in dims), dtype, scope, kind)

    def _tile(
        self, name: str, shape: Sequence[Expr], dtype: DType, scope: Scope = Scope.FRAGMENT, kind: str = "fragment"
    ) -> Buffer:
        """Allocates a tile; one without dimensions has one element."""
        shape = tuple(shape) or (ONE,)
        buffer = Buffer(name, shape, dtype, scope)
        made = f'T.alloc_{kind}({self._names.items(shape)}, "{dtype!s}")'
        self._allocations.append(f"{self._names.name(buffer)} = {made}")
        return buffer

    # -- statements ------------------------------------------------------------------------------------------------
    def _write_fill(self, buffer: Buffer, value: Const) -> None:
        name = self._names.name(buffer)
        self._write(f"T.clear({name})" if value.value == 0 else f"T.fill({name}, {fill_text(value, self._names)})")

    def _assign(self, target: Load, dims: Sequence[Var], value: Expr, inside: Sequence[Expr] = ()) -> None:
        """Writes `target = value` for all elements of a tile for which conditions hold."""
        masked = self._mask_of(target, value)
        if self._visited is not None and masked is not None and masked is not value:
            self._blocks.append([])
            self._assign(target, dims, masked, inside)
            lines = self._blocks.pop()
            self._write(f"if {self._text(self._visited.is_partial)}:")
            self._blocks[-1].extend(INDENT + line for line in lines)
            return
        bindings, result = hoist_common_subexpressions(self._values.localized(value))
        body = [f"{self._names.name(binding.var)} = {self._text(binding.value)}" for binding in bindings]
        body.append(f"{self._element_text(target)} = {self._text(result)}")
        self._write_loop(dims, body, inside, loop_variant=not dims or self._is_loop_variant(value))

    def _mask_of(self, target: Load, value: Expr) -> Expr | None:
        """A masked value that the target tile holds unmasked, with the mask alone; None for other values.

        Tiles that the mask keeps whole need no such statement, so the test for them goes around it.
        """
        held = self._values.tile_of(value)
        if held is not None:
            return value if held.buffer is target.buffer else None
        match value:
            case Select(condition=condition, a=a, b=b) if self._visited is not None:
                inner, kept = self._visited.in_mask(condition), self._mask_of(target, a)
                return None if inner is None or kept is None else select(inner, kept, b)
        return None

    def _write_loop(
        self, dims: Sequence[Var], body: Sequence[str], inside: Sequence[Expr], *, loop_variant: bool = True
    ) -> None:
        """Writes statements for all elements of a tile for which conditions hold."""
        headers = []
        if dims:
            variables = [self._placement.places[axis].local for axis in dims]
            names = ", ".join(self._names.name(local) for local in variables if local is not None)
            sizes = ", ".join(self._text(self._placement.places[axis].size) for axis in dims)
            headers.append(f"for {names} in T.Parallel({sizes}):")
        headers += [f"if {' and '.join(map(self._text, inside))}:"] if inside else []
        lines = [INDENT * depth + header for depth, header in enumerate(headers)]
        lines += [INDENT * len(headers) + line for line in body]
        self._blocks[-1 if loop_variant else 0].extend(lines)

    def _element_text(self, target: Load) -> str:
        """An element as the target of an assignment."""
        indices = [self._values.localized(index, in_tile=target.buffer.scope.on_chip) for index in target.indices]
        return self._names.element(target.buffer, indices) if indices else f"{self._names.name(target.buffer)}[()]"

    def _write(self, line: str) -> None:
        self._blocks[-1].append(line)

    def _write_load(self, expr: Expr, line: str) -> None:
        """Writes a load before the other statements of a loop, or before all loops."""
        if len(self._blocks) > 1 and self._is_loop_variant(expr):
            self._blocks[-1].insert(self._loads[-1], line)
            self._loads[-1] += 1
        else:
            self._blocks[0].append(line)

    def _text(self, expr: Expr) -> str:
        return self._names.expr(expr)


def fill_text(value: Const, names: ExprPrinter) -> str:
    """A literal; the limits of a dtype are written as `T.min_value` and `T.max_value`."""
    for name, limit in zip(("min", "max"), value.dtype.limits, strict=True):
        if value.value == limit:
            return f'T.{name}_value("{value.dtype!s}")'
    return names.expr(value)


def _is_costly(expr: Expr) -> bool:
    """Whether a float takes many instructions: a function or a division."""
    return expr.dtype.is_float and (isinstance(expr, Call) or isinstance(expr, Binary) and expr.op is BinaryOp.DIV)
