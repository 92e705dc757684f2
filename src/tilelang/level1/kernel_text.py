"""The text of one kernel, `with T.Kernel(...)` and its body, as an author of tile programs would write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Expr, Load, Var, binary, int_const
from tilelang.ir.print_expr import ExprPrinter
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import loads_of
from tilelang.level1.block_text import INDENT, fill_text, same_axes
from tilelang.level1.contraction import contraction, without_widening
from tilelang.level1.fused import FusedKernel, FusedReduction, Output
from tilelang.level1.graph import Array, Combiner, Scan, Scatter, Sort
from tilelang.level1.loop_bounds import Combined
from tilelang.level1.passes import Accumulation, Pass, passes_of
from tilelang.level1.placement import Placement, Tiling
from tilelang.level1.reduction_text import ReductionText, first_value
from tilelang.level1.tile_values import read_tile

_SCANS = {Combiner.SUM: "T.cumsum", Combiner.MAX: "T.cummax"}
_FUNCTIONS = {Combiner.PROD: "lambda a, b: a * b", Combiner.MIN: "lambda a, b: T.min(a, b)"}
_ATOMICS = {Combiner.SUM: "T.atomic_add", Combiner.MAX: "T.atomic_max", Combiner.MIN: "T.atomic_min"}


def kernel_text(kernel: FusedKernel, tiling: Tiling, placement: Placement, names: ExprPrinter) -> list[str]:
    """The lines of a kernel.

    Args:
        kernel: What it computes.
        tiling: How it is divided.
        placement: Where that puts its axes.
        names: The printer of the module, which knows the names of arrays in memory and of the sizes of tiles.
    """
    with names.scope():
        return _KernelText(kernel, tiling, placement, names).lines()


class _KernelText(ReductionText):
    """Writes a kernel."""

    def lines(self) -> list[str]:
        """The text."""
        header = self._header()
        streamed = [axis for axis in self._kernel.streamed if axis in self._placement.steps]
        passes = passes_of(self._kernel) if streamed else ()
        for n, each in enumerate(passes):
            self._pass(each, passes[n + 1 :])
        if not streamed:
            bodies = [reduction.body for reduction in self._kernel.reductions if contraction(reduction) is None]
            self._share([*bodies, *(output.body for output in self._kernel.outputs)])
            for reduction in self._kernel.reductions:
                self._require(reduction)
        for output in self._kernel.outputs:
            if not streamed or set(self._kernel.streamed).isdisjoint(output.axes):
                self._store(output)
        return [*header, *(INDENT + line for line in (*self._allocations, *self._blocks[0]))]

    def _header(self) -> list[str]:
        grid, decoded = list(self._placement.grid), list[str]()
        counts = [self._count(var, extent) for var, extent in grid]
        if len(grid) > 3:
            merged, grid, sizes = grid[2:], grid[:2], counts[2:]
            block = Var("rest", grid[0][0].dtype, index=True)
            rest = self._names.name(block)
            for (var, _), size in zip(merged[:-1], sizes, strict=False):
                decoded.append(f"{self._names.name(var)} = {rest} % {_parenthesized(size)}")
                rest = f"{rest} // {_parenthesized(size)}"
            decoded.append(f"{self._names.name(merged[-1][0])} = {rest}")
            counts[2:] = [" * ".join(sizes)]
            grid.append((block, merged[0][1]))
        variables = [self._names.name(var) for var, _ in grid]
        shown = variables[0] if len(variables) == 1 else f"({', '.join(variables)})"
        launch = f"with T.Kernel({', '.join([*counts, f'threads={self._tiling.threads}'])})"
        if not grid:
            launch, shown = f"with T.Kernel(1, threads={self._tiling.threads})", "_"
        return [f"{launch} as {shown}:", *(INDENT + line for line in decoded)]

    # -- passes ---------------------------------------------------------------------------------------------------
    def _pass(self, each: Pass, later: Sequence[Pass]) -> None:
        """Writes a loop over the streamed axes, and what its results are after it."""
        rescaled = {
            load.buffer: None
            for accumulation in each.accumulations
            if accumulation.form is not None
            for _, exponent in accumulation.form.exponents
            for load in loads_of(exponent)
            if isinstance(load.buffer, Array)
        }
        tiles = {a: self._accumulator(a.reduction, finite=a.reduction.array in rescaled) for a in each.accumulations}
        combined = [Combined(a.body, float(first_value(a.reduction, finite=False).value)) for a in each.accumulations]
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
            result = read_tile(tiles[accumulation], dims)
            if reduction.array in rescaled and reduction.combiner is not Combiner.SUM and self._is_read(
                reduction.array, each, later
            ):
                finite, neutral = (fill_text(first_value(reduction, finite=f), self._names) for f in (True, False))
                place = self._place(result)
                self._write_loop(dims, [f"{place} = T.if_then_else({place} == {finite}, {neutral}, {place})"], ())
            self._values.known[expr_key(reduction.result)] = accumulation.final(result)

    def _is_read(self, array: Array, own: Pass, later: Sequence[Pass]) -> bool:
        """Whether something reads the result of a reduction after the loop that computes it."""
        bodies = [accumulation.body for each in later for accumulation in each.accumulations]
        bodies += [output.body for output in self._kernel.outputs]
        bodies += [a.form.epilogue for a in own.accumulations if a.form is not None and a.form.epilogue is not None]
        return any(load.buffer is array for body in bodies for load in loads_of(body))

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

    # -- outputs --------------------------------------------------------------------------------------------------
    def _store(self, output: Output) -> None:
        """Stores the current tile of an output."""
        for other in self._kernel.reads(output.body):
            self._require(other)
        dims = self._values.dims(output.axes)
        match output.definition:
            case Scan() | Sort():
                self._store_sequence(output)
                return
            case Scatter():
                self._update(output, output.definition)
                return
        self._hold_shared(output.body)
        held = self._values.tile_of(without_widening(output.body), output.body)
        inside = self._conditions(output, dims)
        # T.copy does not transpose
        whole = bool(dims) and same_axes(self._tile_axes(output.target), dims) and not inside
        if held is not None and whole and same_axes(held.indices, dims):
            self._write(f"T.copy({self._names.name(held.buffer)}, {self._region(output.target)})")
            return
        self._assign(output.target, dims, output.body, inside)

    def _conditions(self, output: Output, dims: Sequence[Var]) -> list[Expr]:
        """What holds for elements of a tile that exist, where stores of others would not be beyond the array."""
        plain = {
            index
            for index, size in zip(output.indices, output.array.shape, strict=True)
            if isinstance(index, Var) and expr_key(self._kernel.extents[index]) == expr_key(size)
        }
        conditions = []
        for axis in dims:
            size, block = int_const(self._kernel.extents[axis]), self._tiling.blocks.get(axis)
            if axis not in plain and block is not None and (size is None or size % block):
                place = self._placement.places[axis]
                conditions.append(place.point < place.extent)
        return conditions

    def _store_sequence(self, output: Output) -> None:
        """Scans or sorts tiles that hold the whole axis, and stores them."""
        definition, along = output.definition, output.along
        assert along is not None
        dims = (*(axis for axis in self._values.dims(output.axes) if axis is not along), along)
        source = self._names.name(self._materialized(output.body, f"{output.array.name}_keys", dims).buffer)
        size: Expr = self._placement.places[along].size
        if isinstance(definition, Scan):
            result = self._fragment(f"{output.array.name}_local", dims, output.body.dtype)
            operands = f"{source}, {self._names.name(result)}"
            scan = _SCANS.get(definition.combiner)
            function = _FUNCTIONS.get(definition.combiner)
            last = len(dims) - 1
            self._write(f"{scan}({operands}, dim={last})" if scan else f"T.associative_scan({operands}, {function})")
        else:
            assert isinstance(definition, Sort)
            size = output.array.shape[definition.along]
            result = self._sorted(output, definition, source, dims)
        variables = [self._placement.places[axis].local for axis in dims]
        sizes = [*(self._placement.places[axis].size for axis in dims[:-1]), size]
        target = self._place(output.target)
        value = self._text(self._values.localized(read_tile(result, dims)))
        names = ", ".join(self._names.name(local) for local in variables if local is not None)
        self._write(f"for {names} in T.Parallel({', '.join(map(self._text, sizes))}):")
        self._write(f"{INDENT}{target} = {value}")

    def _sorted(self, output: Output, definition: Sort, source: str, dims: Sequence[Var]) -> Buffer:
        """The tile of the first elements of a sorted one, or of their positions."""
        count, size = output.array.shape[definition.along], self._placement.places[dims[-1]].size
        whole = expr_key(count) == expr_key(size) or int_const(count) == int_const(size)
        shape = [self._placement.places[axis].size for axis in dims[:-1]] + [count]
        values = self._tile(f"{output.array.name}_local", shape, output.body.dtype)
        kept = self._names.name(values)
        places = found = None
        if definition.gives_index:
            places = self._tile(f"{output.array.name}_places", shape, output.array.dtype)
            found = self._names.name(places)
        if whole:
            options = [f"descending={definition.descending}"] + ([f"indices={found}"] if found else [])
            self._write(f"T.sort({source}, {kept}, {', '.join(options)})")
        else:
            options = [self._text(count), kept, *([found] if found else []), f"largest={definition.descending}"]
            self._write(f"T.topk({source}, {', '.join(options)})")
        return values if places is None else places

    def _update(self, output: Output, definition: Scatter) -> None:
        """Combines updates with the elements where they go."""
        dims, combiner = self._values.dims(output.axes), definition.combiner
        target, inside = self._place(output.target), self._conditions(output, dims)
        value = self._text(self._values.localized(output.body))
        store = f"{target} = {value}" if combiner is None else f"{_ATOMICS[combiner]}({target}, {value})"
        self._write_loop(dims, [store], inside)


def _parenthesized(text: str) -> str:
    return f"({text})" if " " in text and not text.endswith(")") else text
