"""The text of one kernel, `with T.Kernel(...)` and its body, as an author of tile programs would write it."""

from __future__ import annotations

import operator
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tilelang.dtypes import DType
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Cast, Const, Expr, Load, Select, Var, binary, cast, conjunction, const, select
from tilelang.ir.print_expr import ExprPrinter
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import loads_of, variables_of
from tilelang.level1.contraction import Contraction, contraction, without_widening
from tilelang.level1.fused import FusedKernel, FusedReduction, Output
from tilelang.level1.graph import Array, Combiner
from tilelang.level1.loop_bounds import Combined, loop_range
from tilelang.level1.passes import Accumulation, Pass, passes_of
from tilelang.level1.placement import ONE, Placement, Tiling, next_origin
from tilelang.level1.repeated import Binding, with_bindings
from tilelang.level1.tile_values import TileValues, read_tile

INDENT = "    "
_REDUCE = {Combiner.SUM: "reduce_sum", Combiner.MAX: "reduce_max", Combiner.MIN: "reduce_min"}


def kernel_text(kernel: FusedKernel, tiling: Tiling, placement: Placement, names: ExprPrinter) -> list[str]:
    """The lines of a kernel.

    Args:
        kernel: What it computes.
        tiling: How it is divided.
        placement: Where that puts its axes.
        names: The printer of the module, which knows the names of arrays in memory and of the sizes of tiles.
    """
    with names.scope():
        return _Writer(kernel, tiling, placement, names).lines()


class _Writer:
    def __init__(self, kernel: FusedKernel, tiling: Tiling, placement: Placement, names: ExprPrinter) -> None:
        self._kernel, self._tiling, self._placement, self._names = kernel, tiling, placement, names
        self._values = TileValues(placement)
        self._allocations: list[str] = []
        # the statements of the kernel, and of the loops that are being written; those of a loop begin with its loads
        self._blocks: list[list[str]] = [[]]
        self._loads = [0]

    # -- the whole ------------------------------------------------------------------------------------------------
    def lines(self) -> list[str]:
        """The text."""
        header = self._header()
        streamed = [axis for axis in self._kernel.streamed if axis in self._placement.steps]
        if streamed:
            for each in passes_of(self._kernel):
                self._pass(each)
        else:
            for reduction in self._kernel.reductions:
                self._require(reduction)
        for output in self._kernel.outputs:
            if not streamed or set(self._kernel.streamed).isdisjoint(output.axes):
                self._store(output)
        return [*header, *(INDENT + line for line in (*self._allocations, *self._blocks[0]))]

    def _header(self) -> list[str]:
        grid, decoded = list(self._placement.grid), []
        counts = [self._count(var, extent) for var, extent in grid]
        if len(grid) > 3:
            merged, grid, counts = grid[2:], grid[:2], counts[:2] + [" * ".join(counts[2:])]
            block = Var("bz", grid[0][0].dtype, index=True)
            rest: Expr = block
            for var, extent in merged[:-1]:
                decoded.append((var, rest % extent))
                rest = rest // extent
            decoded.append((merged[-1][0], rest))
            grid.append((block, merged[0][1]))
        variables = [self._names.name(var) for var, _ in grid]
        shown = variables[0] if len(variables) == 1 else f"({', '.join(variables)})"
        launch = f"with T.Kernel({', '.join([*counts, f'threads={self._tiling.threads}'])})"
        if not grid:
            launch, shown = f"with T.Kernel(1, threads={self._tiling.threads})", "_"
        for var, value in decoded:
            self._write(f"{self._names.name(var)} = {self._text(value)}")
        return [f"{launch} as {shown}:"]

    def _count(self, var: Var, extent: Expr) -> str:
        """The blocks, or steps, along an axis."""
        for axis, place in self._placement.places.items():
            if place.local is not None and place.ragged and var in variables_of(place.origin):
                return f"T.ceildiv({self._text(extent)}, {self._text(self._placement.block_names[axis])})"
        return self._text(extent)

    # -- passes ---------------------------------------------------------------------------------------------------
    def _pass(self, each: Pass) -> None:
        rescaled = {
            load.buffer: None
            for accumulation in each.accumulations
            if accumulation.form is not None
            for _, exponent in accumulation.form.exponents
            for load in loads_of(exponent)
            if isinstance(load.buffer, Array)
        }
        tiles = {a: self._accumulator(a.reduction, finite=a.reduction.array in rescaled) for a in each.accumulations}
        combined = [Combined(a.body, float(_first(a.reduction, finite=False).value)) for a in each.accumulations]
        with self._loop(self._kernel.streamed, [] if each.outputs else combined):
            before: dict[Buffer, Buffer] = {
                array: Buffer(f"{array.name}_before", array.shape, array.dtype, Scope.GLOBAL)
                for array in rescaled
            }
            for accumulation in each.accumulations:
                array = accumulation.reduction.array
                if array in before:
                    self._keep_before(accumulation.reduction, tiles[accumulation], before[array])
                self._accumulate(accumulation, tiles[accumulation], before)
            for output in each.outputs:
                self._store(output)
        for accumulation in each.accumulations:
            reduction = accumulation.reduction
            dims = self._values.dims(reduction.axes)
            result: Expr = read_tile(tiles[accumulation], dims)
            if reduction.array in rescaled and reduction.combiner is not Combiner.SUM:
                result = select(result == _first(reduction, finite=True), _first(reduction, finite=False), result)
            self._values.known[expr_key(reduction.result)] = accumulation.final(result)

    @contextmanager
    def _loop(self, axes: Sequence[Var], combined: Sequence[Combined]) -> Iterator[None]:
        """Writes the loops over the tiles of axes around what is written inside, and combines what is given."""
        headers: list[str] = []
        for axis in axes:
            step = self._placement.steps[axis]
            place = self._placement.places[axis]
            start, stop = "", self._count(step, place.extent)
            if combined:
                start, stop = loop_range(axis, combined, self._values, stop, self._names)
            bounds = f"{start}, {stop}" if start else stop
            last = axis is axes[-1]
            kind = f"T.Pipelined({bounds}, num_stages={self._tiling.stages})" if last else f"T.serial({bounds})"
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
        for line in body:
            self._write(INDENT * len(headers) + line)

    def _accumulator(self, reduction: FusedReduction, *, finite: bool) -> Buffer:
        """Allocates the accumulator of a reduction, with the value over no elements."""
        buffer = self._result_tile(reduction)
        self._write_fill(buffer, _first(reduction, finite=finite))
        self._values.hold(reduction.result, buffer, self._values.dims(reduction.axes), stepwise=True)
        return buffer

    def _write_fill(self, buffer: Buffer, value: Const) -> None:
        name = self._names.name(buffer)
        self._write(f"T.clear({name})" if value.value == 0 else f"T.fill({name}, {_fill_text(value, self._names)})")

    def _keep_before(self, reduction: FusedReduction, tile: Buffer, before: Buffer) -> None:
        """Copies a running value aside, before the step changes it."""
        dims = self._values.dims(reduction.axes)
        kept = self._fragment(before.name, dims, tile.dtype)
        self._write(f"T.copy({self._names.name(tile)}, {self._names.name(kept)})")
        self._values.known[expr_key(Load(before, reduction.axes, tile.dtype))] = read_tile(kept, dims)

    def _accumulate(self, accumulation: Accumulation, tile: Buffer, before: Mapping[Buffer, Buffer]) -> None:
        reduction = accumulation.reduction
        dims = self._values.dims(reduction.axes)
        if accumulation.form is not None:
            factor = accumulation.form.rescale(before)
            if factor is not None:
                held = self._materialized(factor, "rescale", self._values.dims_of(factor))
                old = read_tile(tile, dims)
                self._assign(old, dims, binary(BinaryOp.MUL, old, held))
        self._combine(reduction, accumulation.body, tile, clear=False)

    # -- reductions of a tile ---------------------------------------------------------------------------------------
    def _require(self, reduction: FusedReduction) -> None:
        """Computes a reduction that the body of another one reads, if no tile holds it."""
        if expr_key(reduction.result) in self._values.known:
            return
        if len(self._blocks) > 1 and not self._is_stepwise(reduction.result):
            with self._before_loops():
                self._require(reduction)
            return
        buffer = self._result_tile(reduction)
        steps = [axis for axis in reduction.reduced if axis in self._placement.steps]
        if steps:
            self._write_fill(buffer, _first(reduction, finite=False))
            with self._loop(reduction.reduced, []):
                self._combine(reduction, reduction.body, buffer, clear=False)
        else:
            self._combine(reduction, reduction.body, buffer, clear=True)
        self._values.hold(reduction.result, buffer, self._values.dims(reduction.axes), stepwise=True)

    @contextmanager
    def _before_loops(self) -> Iterator[None]:
        """Writes before the loops that are being written."""
        blocks, loads, known = self._blocks, self._loads, self._values.known
        self._blocks, self._loads, self._values.known = blocks[:1], loads[:1], ChainMap(known.maps[-1])
        yield
        self._blocks, self._loads, self._values.known = blocks, loads, known

    def _is_stepwise(self, expr: Expr) -> bool:
        """Whether an expression changes from one step of a loop to the next."""
        if any(axis in self._placement.steps for axis in variables_of(expr)):
            return True
        read = [load.buffer for load in loads_of(expr)]
        if not all(isinstance(buffer, Array) for buffer in read):
            return True
        streamed = set(self._kernel.streamed)
        return any(not streamed.isdisjoint(r.reduced) or self._is_stepwise(r.body) for r in self._kernel.reads(expr))

    def _combine(self, reduction: FusedReduction, body: Expr, tile: Buffer, *, clear: bool) -> None:
        """Combines the current tile of a body into the tile of the result."""
        for other in self._kernel.reads(body):
            self._require(other)
        product = contraction(reduction, body)
        if product is not None and self._fits_gemm(reduction, product):
            self._gemm(reduction, product, tile, clear=clear)
            return
        dims = self._values.dims(reduction.axes)
        reduced = self._values.dims(reduction.reduced)
        neutral = _first(reduction, finite=False)
        source = self._materialized(body, f"{reduction.array.name}_tile", self._values.dims((*dims, *reduced)), neutral)
        order = list(self._values.dims((*dims, *reduced)))
        for axis in reduced[:-1]:
            order = [each for each in order if each is not axis]
            partial = self._fragment(f"{reduction.array.name}_part", order, reduction.body.dtype)
            position = list(map(id, self._values.dims((*order, axis)))).index(id(axis))
            self._reduce(reduction, source.buffer, partial, position, clear=True)
            source = read_tile(partial, order)
        if reduced:
            position = list(map(id, self._values.dims((*dims, reduced[-1])))).index(id(reduced[-1]))
            self._reduce(reduction, source.buffer, tile, position, clear=clear)
        else:
            old = read_tile(tile, dims)
            self._assign(old, dims, source if clear else binary(reduction.combiner.operator, old, source))

    def _reduce(self, reduction: FusedReduction, source: Buffer, target: Buffer, dim: int, *, clear: bool) -> None:
        options = f"dim={dim}" if clear else f"dim={dim}, clear=False"
        name = _REDUCE[reduction.combiner]
        self._write(f"T.{name}({self._names.name(source)}, {self._names.name(target)}, {options})")

    # -- matrix products ------------------------------------------------------------------------------------------
    def _fits_gemm(self, reduction: FusedReduction, product: Contraction) -> bool:
        """Whether the tile of the result has one axis of rows and one of columns."""
        dims = self._values.dims(reduction.axes)
        return (
            len(dims) == 2
            and dims[0] in set(product.rows)
            and dims[1] in set(product.columns)
            and len(self._values.dims(reduction.reduced)) == 1
        )

    def _gemm(self, reduction: FusedReduction, product: Contraction, tile: Buffer, *, clear: bool) -> None:
        row, column = self._values.dims(reduction.axes)
        (k,) = self._values.dims(reduction.reduced)
        dtypes = [self._operand_dtype(operand) for operand in (product.a, product.b)]
        wide = [dtype for dtype in dtypes if dtype is not None]
        common = max(wide, key=lambda dtype: dtype.bits) if wide else reduction.body.dtype
        a, a_order = self._operand(product.a, (row, k), common, fragment=True)
        b, b_order = self._operand(product.b, (k, column), common, fragment=False)
        options = ["transpose_A=True"] if a_order[0] is k else []
        options += ["transpose_B=True"] if b_order[0] is not k else []
        options += ["clear_accum=True"] if clear else []
        operands = [self._names.name(buffer) for buffer in (a, b, tile)]
        self._write(f"T.gemm({', '.join([*operands, *options])})")
        if product.scale is not None:
            assert clear, "scales are separated from products that are accumulated"
            old = read_tile(tile, (row, column))
            self._assign(old, (row, column), old * product.scale)

    def _operand_dtype(self, operand: Expr) -> DType | None:
        """The dtype of an operand that is an element of an array, or rounded; None for one that follows the other."""
        inner = without_widening(operand)
        return inner.dtype if isinstance(inner, Cast) or self._plain_load(inner) is not None else None

    def _operand(
        self, operand: Expr, axes: tuple[Var, Var], dtype: DType, *, fragment: bool
    ) -> tuple[Buffer, Sequence[Var]]:
        """The tile of an operand, and its axes in order."""
        inner = without_widening(operand)
        held = self._values.tile_of(inner, operand)
        if held is not None and (held.buffer.scope is Scope.SHARED or fragment and _same_axes(held.indices, axes)):
            return held.buffer, held.indices  # type: ignore[return-value]
        load = self._plain_load(inner)
        if load is not None and load.dtype == dtype:
            order = [index for index in load.indices if isinstance(index, Var) and index in set(axes)]
            shared = self._shared(load.buffer.name, order, dtype)
            self._write_load(inner, f"T.copy({self._region(load)}, {self._names.name(shared)})")
            self._values.hold(inner, shared, order, stepwise=self._is_stepwise(inner), beyond=0.0)
            return shared, order
        for other in self._kernel.reads(inner):
            self._require(other)
        shared = self._shared("operand", axes, dtype)
        self._assign(read_tile(shared, axes), axes, cast(self._masked(inner, axes, Const(0.0, inner.dtype)), dtype))
        return shared, axes

    def _plain_load(self, expr: Expr) -> Load | None:
        """A read of memory in which each axis of the tile is one index."""
        if not isinstance(expr, Load) or expr.buffer.scope.on_chip or expr_key(expr) in self._values.known:
            return None
        tiled = [index for index in expr.indices if self._values.dims_of(index)]
        plain = all(isinstance(index, Var) for index in tiled) and len(set(tiled)) == len(tiled)
        return expr if plain and tiled else None

    def _region(self, load: Load) -> str:
        """The part of an array that a tile of reads covers."""
        tiled = [bool(self._values.dims_of(index)) for index in load.indices]
        trailing = all(tiled[tiled.index(True) :])
        parts = []
        for index, has_tile in zip(load.indices, tiled, strict=True):
            if not has_tile:
                parts.append(self._text(self._values.localized(index)))
                continue
            place = self._placement.places[index]  # type: ignore[index]
            begins = self._text(place.origin)
            parts.append(begins if trailing else f"{begins}:{self._text(next_origin(place))}")
        return f"{self._names.name(load.buffer)}[{', '.join(parts)}]"

    # -- tiles ----------------------------------------------------------------------------------------------------
    def _materialized(self, expr: Expr, name: str, dims: Sequence[Var], neutral: Const | None = None) -> Load:
        """The tile that holds an expression; made if there is none, with the neutral value beyond ragged ends."""
        held = self._values.tile_of(expr)
        if held is not None and _same_axes(held.indices, dims) and held.buffer.scope is Scope.FRAGMENT:
            return held
        for other in self._kernel.reads(expr):
            self._require(other)
        load = self._plain_load(without_widening(expr))
        buffer = self._fragment(name if load is None else f"{load.buffer.name}_tile", dims, expr.dtype)
        ragged = self._ragged(dims)
        if load is not None and _same_axes([i for i in load.indices if self._values.dims_of(i)], dims) and (
            neutral is None or neutral.value == 0 or not ragged
        ):
            self._write_load(expr, f"T.copy({self._region(load)}, {self._names.name(buffer)})")
            beyond: float | None = 0.0
        else:
            self._assign(read_tile(buffer, dims), dims, expr if neutral is None else self._masked(expr, dims, neutral))
            beyond = None if neutral is None else float(neutral.value)
        self._values.hold(expr, buffer, dims, stepwise=self._is_stepwise(expr), beyond=beyond)
        return read_tile(buffer, dims)

    def _ragged(self, dims: Sequence[Var]) -> frozenset[Var]:
        """The axes of a tile whose ends matter: those that are reduced."""
        return frozenset(axis for axis in dims if axis in self._placement.steps)

    def _masked(self, expr: Expr, dims: Sequence[Var], neutral: Const) -> Expr:
        """An expression that has the neutral value beyond the ends of ragged axes."""
        ragged = self._ragged(dims)
        if not ragged or self._values.beyond(expr, ragged) == neutral.value:
            return expr
        conditions = [axis < self._placement.places[axis].extent for axis in dims if axis in ragged]
        match expr:
            case Select(condition=condition, a=a, b=Const(value=value)) if value == neutral.value:
                return select(conjunction([*conditions, condition]), a, neutral)
        return select(conjunction(conditions), expr, neutral)

    def _result_tile(self, reduction: FusedReduction) -> Buffer:
        """Allocates the tile of the result of a reduction."""
        stored = any(output.array is reduction.array for output in self._kernel.outputs)
        name = f"{reduction.array.name}_local" if stored else reduction.array.name
        return self._fragment(name, self._values.dims(reduction.axes), reduction.body.dtype)

    def _fragment(self, name: str, dims: Sequence[Var], dtype: DType) -> Buffer:
        return self._allocated(name, dims, dtype, Scope.FRAGMENT, "fragment")

    def _shared(self, name: str, dims: Sequence[Var], dtype: DType) -> Buffer:
        return self._allocated(f"{name}_shared", dims, dtype, Scope.SHARED, "shared")

    def _allocated(self, name: str, dims: Sequence[Var], dtype: DType, scope: Scope, kind: str) -> Buffer:
        shape = tuple(self._placement.places[axis].size for axis in dims) or (ONE,)
        buffer = Buffer(name, shape, dtype, scope)
        made = f'T.alloc_{kind}({self._names.items(shape)}, "{dtype!s}")'
        self._allocations.append(f"{self._names.name(buffer)} = {made}")
        return buffer

    # -- statements -----------------------------------------------------------------------------------------------
    def _store(self, output: Output) -> None:
        """Stores the current tile of an output."""
        for other in self._kernel.reads(output.body):
            self._require(other)
        dims = self._values.dims(output.axes)
        target = Load(output.array, output.axes, output.array.stored_dtype)
        held = self._values.tile_of(without_widening(output.body), output.body)
        if held is not None and dims and _same_axes(held.indices, dims):
            self._write(f"T.copy({self._names.name(held.buffer)}, {self._region(target)})")
            return
        self._assign(target, dims, output.body)

    def _assign(self, target: Load, dims: Sequence[Var], value: Expr) -> None:
        """Writes `target = value` for all elements of a tile."""
        locals_ = [self._placement.places[axis].local for axis in dims]
        bindings, result = with_bindings(self._values.localized(value))
        body = [self._binding(binding) for binding in bindings]
        body.append(f"{self._text(self._values.localized(target))} = {self._text(result)}")
        if not dims:
            self._blocks[-1].extend(body)
            return
        variables = ", ".join(self._names.name(local) for local in locals_ if local is not None)
        sizes = ", ".join(self._text(self._placement.places[axis].size) for axis in dims)
        self._write_for(value, f"for {variables} in T.Parallel({sizes}):")
        for line in body:
            self._write_for(value, INDENT + line)

    def _binding(self, binding: Binding) -> str:
        return f"{self._names.name(binding.var)} = {self._text(binding.value)}"

    def _write(self, line: str) -> None:
        self._blocks[-1].append(line)

    def _write_for(self, expr: Expr, line: str) -> None:
        """Writes a line in the outermost loop whose steps an expression does not depend on."""
        self._blocks[-1 if self._is_stepwise(expr) else 0].append(line)

    def _write_load(self, expr: Expr, line: str) -> None:
        """Writes a load before the other statements of a loop, or before all loops."""
        if len(self._blocks) > 1 and self._is_stepwise(expr):
            self._blocks[-1].insert(self._loads[-1], line)
            self._loads[-1] += 1
        else:
            self._blocks[0].append(line)

    def _text(self, expr: Expr) -> str:
        return self._names.expr(expr)


def _first(reduction: FusedReduction, *, finite: bool) -> Const:
    """The value of an accumulator over no elements; a finite one in its place if differences of it are formed."""
    dtype = reduction.body.dtype
    if finite and reduction.combiner is not Combiner.SUM:
        return const(dtype.limits[reduction.combiner is Combiner.MIN], dtype)
    return const(reduction.combiner.neutral(dtype), dtype)


def _fill_text(value: Const, names: ExprPrinter) -> str:
    for name, limit in zip(("min", "max"), value.dtype.limits, strict=True):
        if value.value == limit:
            return f'T.{name}_value("{value.dtype!s}")'
    return names.expr(value)


def _same_axes(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(map(operator.is_, a, b))

