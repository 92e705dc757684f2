"""Sorts, arg-reductions, scans with any function, rows by index, reductions by functions and reducers."""

from __future__ import annotations

from random_kernels.layout_programs import SIDES, LayoutPrograms
from random_kernels.model import Buffer, Scope, cap, is_float

_INTEGERS = ("int32", "int16", "int8", "uint8", "int64", "uint32")
_PLACES = ("fragment", "shared")
# associative functions of integers, of which not all commute
_COMBINED = ("a + b", "a * b", "a ^ b", "a | b", "a & b", "T.max(a, b)", "T.min(a, b)", "b", "a")


class Selections(LayoutPrograms):
    """Statements of the library: programs of simpler operators and loops."""

    def _chosen_tile(self, scope: Scope, ranks: tuple[int, ...] = (1, 2, 3), most: int = 1024, last: int = 1024) -> Buffer | None:
        """A tile of at most so many elements, of which rows have at most `last`; a new one if there is none."""
        tiles = [
            b
            for b in scope.readable()
            if b.scope in _PLACES and len(b.shape) in ranks and b.size <= most and b.shape[-1] <= last
        ]
        if tiles and self.pick.often(70):
            return self.pick.one(tiles)
        shape: list[int] = []
        for _ in range(self.pick.one(ranks)):
            shape.insert(0, self.pick.one([e for e in SIDES if e <= min(most, last)]))
            most //= shape[0]
        return self.allocate(scope, self.dtype(), tuple(shape), self.pick.one(_PLACES))

    def _like(
        self, tile: Buffer, shape: tuple[int, ...] | None = None, dtype: str = "", where: tuple[str, ...] = (*_PLACES, "local")
    ) -> Buffer:
        """A new tile for elements of another, or for numbers of an integer dtype."""
        shape = tile.shape if shape is None else shape
        if dtype and dtype != tile.dtype:
            made = Buffer(self.name("S"), dtype, shape, self.pick.one(where))
        else:
            made = Buffer(self.name("S"), tile.dtype, shape, self.pick.one(where), bound=tile.bound, grain=tile.grain,
                          special=tile.special)  # fmt: skip
        self.out.line(f"{made.name} = T.alloc_{made.scope}({made.shape}, '{made.dtype}')")
        return made

    def _writable(self, scope: Scope, tile: Buffer) -> bool:
        return tile.writable and tile in self._targets(scope)

    def _indices_of(self, most: int) -> str:
        """A dtype for places below `most`."""
        return self.pick.one([d for d, top in (("int32", 2**31), ("int64", 2**63), ("int16", 2**15), ("uint8", 256)) if most <= top])

    # -- order --------------------------------------------------------------------------------------------------
    def _sort(self, scope: Scope) -> bool:
        tile = self._chosen_tile(scope, most=512, last=128)
        if tile is None or tile.dtype == "bool":
            return False
        options, made = "", []
        if not self._writable(scope, tile) or self.pick.often(60):
            made.append(self._like(tile))
            options += f", {made[0].name}"
        if self.pick.often(50):
            options += ", descending=True"
        if self.pick.often(50):
            made.append(self._like(tile, dtype=self._indices_of(tile.shape[-1])))
            options += f", indices={made[-1].name}"
        others = [b for b in self._targets(scope) if b.scope in _PLACES and b.shape == tile.shape and b.storage != tile.storage]
        if others and self.pick.often(50):
            options += f", payload={self.pick.one(others).name}"
        self.out.line(f"T.sort({tile.name}{options})")
        scope.buffers += made
        return True

    def _topk(self, scope: Scope) -> bool:
        tile = self._chosen_tile(scope, most=512, last=128)
        if tile is None or tile.dtype == "bool":
            return False
        k = 1 + self.pick.below(min(tile.shape[-1], 9))
        shape, options, made = (*tile.shape[:-1], k), "", []
        form = self.pick.below(3)
        if form != 2:
            made.append(self._like(tile, shape))
        first = made[0].name if made else "None"
        if form != 1:
            made.append(self._like(tile, shape, self._indices_of(tile.shape[-1])))
            options += f", {made[-1].name}"
        if self.pick.often(40):
            options += ", largest=False"
        self.out.line(f"T.topk({tile.name}, {k}, {first}{options})")
        scope.buffers += made
        return True

    def _best(self, scope: Scope) -> bool:
        tile = self._chosen_tile(scope)
        if tile is None or tile.dtype == "bool":
            return False
        dim = self.pick.below(len(tile.shape))
        left = tuple(e for d, e in enumerate(tile.shape) if d != dim)
        shape = self.pick.one((left or (1,), tuple(1 if d == dim else e for d, e in enumerate(tile.shape))))
        made, options = [self._like(tile, shape, self._indices_of(tile.shape[dim]))], ""
        if self.pick.often(50):
            made.append(self._like(tile, shape))
            options = f", values={made[-1].name}"
        which = self.pick.one((dim, dim - len(tile.shape)))
        self.out.line(f"T.{self.pick.one(('argmax', 'argmin'))}({tile.name}, {made[0].name}, dim={which}{options})")
        scope.buffers += made
        return True

    # -- runs ---------------------------------------------------------------------------------------------------
    def _runs(self, scope: Scope) -> bool:
        """A scan with a function, of one tile or of two together."""
        tile = self._chosen_tile(scope)
        if tile is None or tile.dtype == "bool":
            return False
        dim = self.pick.below(len(tile.shape))
        where = f"dim={self.pick.one((dim, dim - len(tile.shape)))}" + (", reverse=True" if self.pick.often(40) else "")
        others = [b for b in self._targets(scope) if b.scope in _PLACES and b.shape == tile.shape and b.storage != tile.storage
                  and b.bound is None and not is_float(b.dtype) and b.dtype != "bool"]  # fmt: skip
        integers = not is_float(tile.dtype) and tile.bound is None
        if integers and others and self._writable(scope, tile) and self.pick.often(40):
            other = self.pick.one(others)
            form = self.pick.one(("(a0 * a1, h0 * a1 + h1)", "(a0 + a1, h1)", "(T.max(a0, a1), T.if_then_else(a0 >= a1, h0, h1))"))
            self.out.line(f"T.associative_scan(({tile.name}, {other.name}), None, lambda a0, h0, a1, h1: {form}, {where})")
            return True
        function = self.pick.one(_COMBINED if integers else ("T.max(a, b)", "T.min(a, b)", "b", "a"))
        if self.pick.often(40):
            first = self.make.number(Scope(), tile.dtype, 0, tile.bound, tile.grain)
            where += f", exclusive=True, init={first}"
        if self._writable(scope, tile) and self.pick.often(40):
            target = "None"
        else:
            made = self._like(tile)
            scope.buffers.append(made)
            target = made.name
        self.out.line(f"T.associative_scan({tile.name}, {target}, lambda a, b: {function}, {where})")
        return True

    def _running(self, scope: Scope) -> bool:
        """Running maxima in place, and running sums of integers."""
        tile = self._chosen_tile(scope)
        if tile is None or tile.dtype == "bool" or not self._writable(scope, tile):
            return False
        op = "max" if is_float(tile.dtype) or tile.bound is not None else self.pick.one(("sum", "max"))
        dim = self.pick.below(2 * len(tile.shape)) - len(tile.shape)
        self.out.line(f"T.cum{op}({tile.name}, dim={dim}{self.pick.one(('', ', reverse=True'))})")
        return True

    def _folded(self, scope: Scope) -> bool:
        """A reduction by a function, of one tile or of a tile and a tile of places."""
        tile = self._chosen_tile(scope)
        if tile is None or tile.dtype == "bool":
            return False
        dim = self.pick.below(len(tile.shape))
        left = tuple(e for d, e in enumerate(tile.shape) if d != dim) or (1,)
        integers = not is_float(tile.dtype) and tile.bound is None
        if self.pick.often(40):
            places, best, where = self._like(tile, dtype="int32"), self._like(tile, left), self._like(tile, left, "int32")
            names = [self.name("i") for _ in tile.shape]
            self.out.line(f"for {', '.join(names)} in T.Parallel({', '.join(map(str, tile.shape))}):")
            self.out.line(f"    {places.at(names)} = {names[dim]}")
            first = "T.any_of(a > b, T.all_of(a == b, i < j))"  # ties are decided by the place: the order is open
            function = f"(T.max(a, b), T.if_then_else({first}, i, j))"
            if tile.special:
                return False
            self.out.line(f"T.reduce(({tile.name}, {places.name}), ({best.name}, {where.name}), lambda a, i, b, j: {function}, dim={dim})")
            scope.buffers += [places, best, where]
            return True
        made = self._like(tile, left)
        function = self.pick.one(("a * b", "a + b", "a ^ b", "T.max(a, b)") if integers else ("T.max(a, b)", "T.min(a, b)"))
        self.out.line(f"T.reduce({tile.name}, {made.name}, lambda a, b: {function}, dim={dim})")
        scope.buffers.append(made)
        return True

    def _added_to(self, scope: Scope) -> bool:
        """A reduction into a tile that has contents, in batches, or without NaN."""
        tile = self._chosen_tile(scope)
        if tile is None or tile.dtype == "bool":
            return False
        dim = self.pick.below(len(tile.shape))
        left = tuple(e for d, e in enumerate(tile.shape) if d != dim) or (1,)
        integers = not is_float(tile.dtype) and tile.bound is None
        op = self.pick.one(("sum", "max", "min", "bitxor", "bitand", "abssum", "absmax") if integers else ("max", "min"))
        made = self._like(tile, left, where=("fragment", "shared"))
        options = ""
        if self.pick.often(60):
            self.out.line(f"T.fill({made.name}, {self.make.number(scope, made.dtype, 1, made.bound, made.grain)})")
            options += ", clear=False"
        if self.pick.often(40):
            options += f", batch={self.pick.one((1, 2, 4, 8))}"
        if op in ("max", "min") and tile.special and self.pick.often(60) and cap(tile.dtype, 2**20) == 2**20:
            options += ", nan_propagate=False"
        self.out.line(f"T.reduce_{op}({tile.name}, {made.name}, dim={dim}{options})")
        scope.buffers.append(made)
        return True

    # -- rows by index ------------------------------------------------------------------------------------------
    def _gather(self, scope: Scope) -> bool:
        sources = [b for b in scope.readable() if b.shape and not b.prefix and not any(b.offsets) and b.scope != "local"]
        indices = [b for b in scope.readable() if len(b.shape) == 1 and not b.prefix and not any(b.offsets)
                   and b.dtype in _INTEGERS]  # fmt: skip
        if not sources:
            return False
        source, dim = self.pick.one(sources), 0
        dim = self.pick.below(len(source.shape))
        if not indices or self.pick.often(50):
            index = Buffer(self.name("S"), self.pick.one(("int32", "int64")), (self.pick.one(SIDES),), self.pick.one(_PLACES))
            self.out.line(f"{index.name} = T.alloc_{index.scope}({index.shape}, '{index.dtype}')")
            i, inner = self.name("i"), scope.inner()
            inner.indices.append((i, 0, index.shape[0] - 1))
            self.out.line(f"for {i} in T.Parallel({index.shape[0]}):")
            self.out.line(f"    {index.name}[{i}] = {self.make.index(inner, -2, source.shape[dim] + 1)}")
            scope.buffers.append(index)
        else:
            index = self.pick.one(indices)
        shape = tuple(index.shape[0] if d == dim else e for d, e in enumerate(source.shape))
        made = self._like(source, shape, where=_PLACES)
        if made.size > 4096:
            return False
        self.out.line(f"T.gather({source.name}, {index.name}, {made.name}, dim={dim})")
        scope.buffers.append(made)
        return True

    def _scatter(self, scope: Scope) -> bool:
        """Rows to places that differ, some of them outside."""
        targets = [b for b in self._targets(scope) if b.scope in _PLACES and b.shape and b.storage == b.name]
        if not targets:
            return False
        target = self.pick.one(targets)
        dim = self.pick.below(len(target.shape))
        rows = self.pick.one((target.shape[dim], 1 + self.pick.below(target.shape[dim]), target.shape[dim] + 2))
        shape = tuple(rows if d == dim else e for d, e in enumerate(target.shape))
        source = Buffer(self.name("S"), target.dtype, shape, self.pick.one(_PLACES), bound=target.bound, grain=target.grain,
                        special=target.special)  # fmt: skip
        if source.size > 4096:
            return False
        self.out.line(f"{source.name} = T.alloc_{source.scope}({shape}, '{source.dtype}')")
        self._fill_all(scope, source)
        scope.buffers.append(source)
        index, i = self.name("S"), self.name("i")
        self.out.line(f"{index} = T.alloc_{self.pick.one(_PLACES)}(({rows},), 'int32')")
        place = self.pick.one((i, f"{rows - 1} - {i}", f"{i} - 1", f"{i} * 2", f"{i} + {self.pick.below(4)}", f"3 - {i} * 3"))
        self.out.line(f"for {i} in T.Parallel({rows}):")
        self.out.line(f"    {index}[{i}] = {place}")
        self.out.line(f"T.scatter({source.name}, {index}, {target.name}, dim={dim})")
        return True

    # -- reducers -----------------------------------------------------------------------------------------------
    def _reducer(self, scope: Scope) -> bool:
        """An epoch of a reducer: many iterations combine values into few elements."""
        floating = self.pick.often(40)
        dtype = self.pick.one(("float32", "float64", "float16")) if floating else self.pick.one(_INTEGERS)
        op = self.pick.one(("max", "min") if floating else ("sum", "max", "min", "bitand", "bitor", "bitxor"))
        rows, columns = self.pick.one([e for e in SIDES if e <= 64]), self.pick.one([e for e in SIDES if e <= 64])
        bound = 4 if floating else None
        total = self.name("R")
        made = Buffer(self.name("S"), dtype, (rows,), "fragment", bound=bound, grain=1)
        self.out.line(f"{total} = T.alloc_reducer(({rows},), '{dtype}', op='{op}')")
        self.out.line(f"{made.name} = T.alloc_fragment(({rows},), '{dtype}')")
        first = ""
        if self.pick.often(50) or floating:  # a total without updates is then an element within the contract
            first = f", {self.make.number(Scope(), dtype, 0, bound, 1)}"
        self.out.line(f"T.reducer_init({total}{first})")
        for _ in range(1 + self.pick.below(2)):
            i, j = self.name("i"), self.name("j")
            inner = scope.inner()
            inner.indices += [(i, 0, rows - 1), (j, 0, columns - 1)]
            self._aligned(inner, [i, j], [rows, columns])
            self.out.line(f"for {i}, {j} in T.Parallel({rows}, {columns}):")
            at = self.pick.one((i, i, f"{rows - 1} - {i}", self.make.index(inner, 0, rows - 1, data=False)))
            value = self.make.number(inner, dtype, 2, bound, 1)
            deep = "    "
            if self.pick.often(25):
                self.out.line(f"    if {self.make.truth(inner, 1)}:")
                deep = "        "
            self.out.line(f"{deep}T.reducer_update({total}[{at}], {value})")
        batch = f", batch={self.pick.one([b for b in (1, 2, 4) if rows % b == 0])}" if self.pick.often(30) else ""
        self.out.line(f"T.finalize_reducer({total}, {made.name}{batch})")
        scope.buffers.append(made)
        return True
