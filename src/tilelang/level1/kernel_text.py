"""The text of one kernel, `with T.Kernel(...)` and its body, as a user would write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilelang.dtypes import DType
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Cast, Expr, Load, Var, binary, const, int_const
from tilelang.ir.print_expr import ExprPrinter
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import loads_of
from tilelang.level1.block_text import fill_text
from tilelang.level1.contraction import contraction, without_widening
from tilelang.level1.data_passes import Accumulation, Pass, data_passes
from tilelang.level1.fused import FusedKernel, FusedReduction, Output
from tilelang.level1.graph import Array, Combiner, Scan, Scatter, Sort, same_axes
from tilelang.level1.launch_text import INDENT, launch_lines
from tilelang.level1.loop_bounds import reduced_body
from tilelang.level1.online_softmax import SoftmaxStep, softmax_step
from tilelang.level1.placement import Placement, Tiling
from tilelang.level1.reduction_text import ReductionText, initial_value
from tilelang.level1.tile_values import read_tile
from tilelang.level1.visited_tiles import VisitedTiles

_SCANS = {Combiner.SUM: "T.cumsum", Combiner.MAX: "T.cummax"}
_FUNCTIONS = {Combiner.PROD: "lambda a, b: a * b", Combiner.MIN: "lambda a, b: T.min(a, b)"}
_ATOMICS = {Combiner.SUM: "T.atomic_add", Combiner.MAX: "T.atomic_max", Combiner.MIN: "T.atomic_min"}


def kernel_text(
    kernel: FusedKernel,
    tiling: Tiling,
    placement: Placement,
    names: ExprPrinter,
    visited: VisitedTiles | None = None,
    kept: Sequence[Load] = (),
) -> list[str]:
    """The lines of a kernel.

    Args:
        kernel: What it computes.
        tiling: How it is divided.
        placement: Where that puts its axes.
        names: The printer of the module, with the names of arrays in memory and of tile sizes.
        visited: The tiles that its loop visits, if not all.
        kept: Loads of which a block copies whole rows to shared memory before its loops.
    """
    with names.scope():
        return _KernelText(kernel, tiling, placement, names, visited, kept).lines()


class _KernelText(ReductionText):
    """Writes a kernel."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # by the first output of one sort: the tiles of its values and, if they are stored, of their positions
        self._sorted_tiles: dict[Array, tuple[Buffer, Buffer | None]] = {}

    def lines(self) -> list[str]:
        """The text."""
        header = self._header()
        streamed = [axis for axis in self._kernel.streamed if axis in self._placement.steps]
        passes = data_passes(self._kernel) if streamed else ()
        for load in self._kept:
            self._load_rows(load)
        for n, each in enumerate(passes):
            self._pass(each, passes[n + 1 :])
        if not streamed:
            bodies = [reduction.body for reduction in self._kernel.reductions if contraction(reduction) is None]
            self._find_shared_values([*bodies, *(output.body for output in self._kernel.outputs)])
            for reduction in self._kernel.reductions:
                self._ensure_computed(reduction)
        for output in self._kernel.outputs:
            if not streamed or set(self._kernel.streamed).isdisjoint(output.axes):
                self._store(output)
        return [*header, *(INDENT + line for line in (*self._allocations, *self._blocks[0]))]

    def _header(self) -> list[str]:
        return launch_lines(self._placement.grid, self._count, self._tiling.threads, self._names)

    # -- passes ---------------------------------------------------------------------------------------------------
    def _pass(self, each: Pass, later: Sequence[Pass]) -> None:
        """Writes a loop over the streamed axes, and records its results."""
        step = None if later else softmax_step(each, self._kernel.outputs)
        if step is not None and self._fits_gemm(step.output.reduction, step.product):
            self._softmax_pass(each, step)
            return
        running = {accumulation.reduction.array for accumulation in each.accumulations}
        rescaled = {
            load.buffer: None
            for accumulation in each.accumulations
            if accumulation.form is not None
            for _, exponent in accumulation.form.exponents
            for load in loads_of(exponent)
            if isinstance(load.buffer, Array) and load.buffer in running
        }
        tiles = {a: self._accumulator(a.reduction, finite=a.reduction.array in rescaled) for a in each.accumulations}
        with self._loop(self._kernel.streamed, [] if each.outputs else [*map(reduced_body, each.accumulations)]):
            before: dict[Buffer, Buffer] = {
                array: Buffer(f"{array.name}_before", array.shape, array.dtype, Scope.GLOBAL)
                for array in rescaled
            }
            for accumulation in each.accumulations:
                array = accumulation.reduction.array
                if array in before:
                    self._save_before(accumulation.reduction, tiles[accumulation], before[array])
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
                finite, neutral = (fill_text(initial_value(reduction, finite=f), self._names) for f in (True, False))
                place = self._element_text(result)
                self._write_loop(dims, [f"{place} = T.if_then_else({place} == {finite}, {neutral}, {place})"], ())
            self._values.known[expr_key(reduction.result)] = accumulation.final(result)

    def _softmax_pass(self, each: Pass, step: SoftmaxStep) -> None:
        """Writes a loop whose steps are `T.online_softmax` and a matrix product."""
        tiles = {a: self._accumulator(a.reduction, finite=False) for a in each.accumulations}
        reduction = step.output.reduction
        with self._loop(self._kernel.streamed, [*map(reduced_body, each.accumulations)]):
            for other in self._kernel.reads(step.scores):
                self._ensure_computed(other)
            dims = self._values.dims((*step.maximum.reduction.axes, *step.maximum.reduction.reduced))
            scores = self._scores(step, dims)
            operands = [scores, *(tiles[a] for a in (step.output, step.maximum, step.total))]
            options = [f"scale={self._text(const(step.scale, scores.dtype))}"] if step.scale != 1 else []
            dtype = self._operand_dtype(step.product.b)
            exponentials = scores
            if dtype is not None and dtype.bits < scores.dtype.bits:
                exponentials = self._fragment("probabilities", dims, dtype)
                options.append(f"probabilities={self._names.name(exponentials)}")
            self._write(f"T.online_softmax({', '.join([*map(self._names.name, operands), *options])})")
            self._values.hold(step.exponential, exponentials, dims, loop_variant=True)
            self._combine(reduction, step.output.body, tiles[step.output], clear=False)
        for a in (step.total, step.output):
            result = read_tile(tiles[a], self._values.dims(a.reduction.axes))
            self._values.known[expr_key(a.reduction.result)] = a.final(result)

    def _scores(self, step: SoftmaxStep, dims: Sequence[Var]) -> Buffer:
        """The tile of the scores, which exponentials overwrite: of a gemm if nothing else reads it, or a new one."""
        masked = self._masked(step.scores, dims, initial_value(step.maximum.reduction, finite=False))
        bodies = [step.product.b, *(output.body for output in self._kernel.outputs)]
        others = {load.buffer for body in bodies for load in loads_of(body)}
        for source in self._kernel.reads(step.scores):
            held = self._values.tile_of(source.result)
            if held is not None and same_axes(held.indices, dims) and source.array not in others:
                if self._values.tile_of(masked) is None:
                    self._assign(held, dims, masked)
                return held.buffer
        scores = self._fragment("scores", dims, step.scores.dtype)
        self._assign(read_tile(scores, dims), dims, masked)
        return scores

    def _is_read(self, array: Array, own: Pass, later: Sequence[Pass]) -> bool:
        """Whether something reads the result of a reduction after the loop that computes it."""
        bodies = [accumulation.body for each in later for accumulation in each.accumulations]
        bodies += [output.body for output in self._kernel.outputs]
        bodies += [a.form.epilogue for a in own.accumulations if a.form is not None and a.form.epilogue is not None]
        return any(load.buffer is array for body in bodies for load in loads_of(body))

    def _save_before(self, reduction: FusedReduction, tile: Buffer, before: Buffer) -> None:
        """Copies a running value before the iteration changes it."""
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
                held = self._materialize(factor, "rescale", self._values.dims_of(factor))
                old = read_tile(tile, dims)
                self._assign(old, dims, binary(BinaryOp.MUL, old, held))
        self._combine(reduction, accumulation.body, tile, clear=False)

    # -- outputs --------------------------------------------------------------------------------------------------
    def _store(self, output: Output) -> None:
        """Stores the current tile of an output."""
        for other in self._kernel.reads(output.body):
            self._ensure_computed(other)
        dims = self._values.dims(output.axes)
        match output.definition:
            case Scan() | Sort():
                self._store_sequence(output)
                return
            case Scatter():
                self._update(output, output.definition)
                return
        self._materialize_shared_values(output.body)
        self._materialize_row_values(output.body, dims)
        held = self._values.tile_of(without_widening(output.body), output.body)
        inside = self._conditions(output, dims)
        # T.copy does not transpose
        whole = bool(dims) and same_axes(self._tile_axes(output.target), dims) and not inside
        if whole and held is None:
            held = self._computed_in_place(output, dims)
        if held is not None and whole and same_axes(held.indices, dims):
            self._write(f"T.copy({self._names.name(held.buffer)}, {self._region(output.target)})")
            return
        self._assign(output.target, dims, output.body, inside)

    def _computed_in_place(self, output: Output, dims: Sequence[Var]) -> Load | None:
        """Computes an output in the tile of a product that nothing else reads; None if there is no such tile.

        From there it is copied as a whole, by what a machine has for that.
        """
        body = output.body
        others = {load.buffer for each in self._kernel.outputs if each is not output for load in loads_of(each.body)}
        for reduction in self._kernel.reads(body):
            tile = self._result_tiles[reduction.array]
            value = body.a if isinstance(body, Cast) and body.a.dtype == tile.dtype else body
            fits = value.dtype == tile.dtype and same_axes(self._values.dims(reduction.axes), dims)
            if fits and reduction.array not in others and contraction(reduction) is not None:
                result = read_tile(tile, dims)
                self._assign(result, dims, value)
                return result
        return None

    def _conditions(self, output: Output, dims: Sequence[Var]) -> list[Expr]:
        """The bounds checks of a store, without those that the array's own bounds imply."""
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
        source = self._names.name(self._materialize(output.body, f"{output.array.name}_keys", dims).buffer)
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
        target = self._element_text(output.target)
        value = self._text(self._values.localized(read_tile(result, dims)))
        names = ", ".join(self._names.name(local) for local in variables if local is not None)
        self._write(f"for {names} in T.Parallel({', '.join(map(self._text, sizes))}):")
        self._write(f"{INDENT}{target} = {value}")

    def _sorted(self, output: Output, definition: Sort, source: str, dims: Sequence[Var]) -> Buffer:
        """The tile of the sorted values or of their positions; one statement computes both."""
        count, size = output.array.shape[definition.along], self._placement.places[dims[-1]].size
        alike = [other for other in self._kernel.outputs if _sorts_alike(other, output)]
        for other in alike[: alike.index(output)]:
            found = self._sorted_tiles[other.array]
            tile = found[definition.gives_index]
            assert tile is not None, "the first of several allocates all tiles"
            return tile
        whole = expr_key(count) == expr_key(size) or int_const(count) == int_const(size)
        shape = [self._placement.places[axis].size for axis in dims[:-1]] + [count]
        values = self._tile(f"{output.array.name}_local", shape, output.body.dtype)
        places = None
        for other in alike:
            if places is None and isinstance(other.definition, Sort) and other.definition.gives_index:
                places = self._tile(f"{output.array.name}_places", shape, other.array.dtype)
        self._sorted_tiles[output.array] = (values, places)
        kept, found_at = self._names.name(values), None if places is None else self._names.name(places)
        if whole:
            options = [f"descending={definition.descending}"] + ([f"indices={found_at}"] if found_at else [])
            self._write(f"T.sort({source}, {kept}, {', '.join(options)})")
        else:
            options = [self._text(count), kept, *([found_at] if found_at else []), f"largest={definition.descending}"]
            self._write(f"T.topk({source}, {', '.join(options)})")
        return places if definition.gives_index and places is not None else values

    def _update(self, output: Output, definition: Scatter) -> None:
        """Writes the updates of a scatter."""
        dims, combiner = self._values.dims(output.axes), definition.combiner
        target, inside = self._element_text(output.target), self._conditions(output, dims)
        value = self._text(self._values.localized(output.body))
        if combiner is Combiner.PROD:
            self._write_loop(dims, self._product_update(target, value, output.array.stored_dtype), inside)
            return
        store = f"{target} = {value}" if combiner is None else f"{_ATOMICS[combiner]}({target}, {value})"
        self._write_loop(dims, [store], inside)

    def _product_update(self, target: str, factor: str, dtype: DType) -> list[str]:
        """Multiplies an element atomically: a loop that ends when no other thread has changed it meanwhile."""
        old, seen = (self._names.name(Var(name, dtype)) for name in ("old", "seen"))
        bits = DType(f"int{dtype.bits}")
        changed = f"{seen} != {old}"
        if dtype.is_float:  # by bits, since NaN differs from itself
            changed = f'T.reinterpret({seen}, "{bits!s}") != T.reinterpret({old}, "{bits!s}")'
        exchange = f"{seen} = T.atomic_cas({target}, {old}, {old} * {factor})"
        return [
            f'{old} = T.alloc_var("{dtype!s}")', f'{seen} = T.alloc_var("{dtype!s}")',
            f"{old} = T.atomic_load({target})", exchange,
            f"while {changed}:", f"{INDENT}{old} = {seen}", f"{INDENT}{exchange}",
        ]  # fmt: skip


def _sorts_alike(a: Output, b: Output) -> bool:
    """Whether one sort gives two outputs."""
    one, other = a.definition, b.definition
    if not isinstance(one, Sort) or not isinstance(other, Sort) or a.along is not b.along:
        return False
    same = expr_key(a.body) == expr_key(b.body) and one.descending == other.descending
    counts = a.array.shape[one.along], b.array.shape[other.along]
    return same and expr_key(counts[0]) == expr_key(counts[1])
