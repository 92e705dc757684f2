"""Random programs of named threads: shuffles, votes, folds over warps and blocks, exchanges through shared memory.

Takes a source of choices, gives a `Program` with the values that it computes: the reference interpreter runs a block as
one sequential program, so NumPy says what each lane has. Invariant: all threads of a warp come to every exchange, and
sums of floats are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from random_kernels.model import Choices
from random_kernels.programs import Program

_DTYPES = ("int32", "uint32", "float32", "int64")
_WIDTHS = (32, 16, 8, 4, 2)


@dataclass
class Value:
    """A name of each thread's own, and what all threads have.

    Attributes:
        has: Shapes: (blocks, warps, 32).
    """

    name: str
    has: np.ndarray

    @property
    def dtype(self) -> str:
        """The name of its dtype."""
        return str(self.has.dtype)


class LanePrograms:
    """Draws one program."""

    def __init__(self, choices: Choices, seed: int = 0) -> None:
        self.pick, self._rng = choices, np.random.default_rng(seed)
        self._lines: list[str] = []
        self._values: list[Value] = []
        self._shape = (1, 1, 32)
        self._shared = 0
        self._barriers: set[int] = set()  # the numbers of those that a group has used since one of the block

    def program(self, kernels: int, statements: int) -> Program:
        """A function of one kernel, in which so many values are made, or twice as many."""
        pick = self.pick
        self._shape = blocks, warps, lanes = pick.one((1, 2, 3)), pick.one((1, 2, 3, 4)), 32
        self._lane = np.broadcast_to(np.arange(lanes), self._shape)
        threads = warps * lanes
        parameters, arguments, expected = [], [], []
        for n, dtype in enumerate(dict.fromkeys(pick.one(_DTYPES) for _ in range(2))):
            low, high = (-8, 9) if dtype == "float32" else (0 if dtype == "uint32" else -(2**31), 2**31)
            few = pick.often(50)
            drawn = self._rng.integers(*((max(low, -2), 3) if few else (low, high)), self._shape).astype(dtype)
            parameters.append(f"A{n}: T.Tensor({(blocks, threads)}, '{dtype}')")
            arguments.append(drawn.reshape(blocks, threads))
            self._value(f"A{n}[b, tx]", drawn)
        expected += [a.copy() for a in arguments]
        for _ in range(statements + pick.below(statements)):
            pick.one((
                self._shuffled, self._shuffled, self._folded, self._voted, self._matched, self._computed, self._exchanged,
                self._counted, self._within_warp, self._within_group, self._rounded, self._bits,
            ))()  # fmt: skip
        for n, value in enumerate(self._values):
            parameters.append(f"O{n}: T.Tensor({(blocks, threads)}, '{value.dtype}')")
            arguments.append(np.zeros((blocks, threads), value.dtype))
            expected.append(value.has.reshape(blocks, threads))
            self._lines.append(f"O{n}[b, tx] = {value.name}")
        text = "\n".join(
            ["import tilelang.language as T", "", "@T.prim_func", f"def main({', '.join(parameters)}):"]
            + [f"    with T.Kernel({blocks}, threads={threads}) as b:"]
            + [f"        {line}" for line in ["tx, lane = T.get_thread_binding(), T.get_lane_idx()", *self._lines]]
            + [""]
        )
        return Program(text, arguments, [0.0] * len(arguments), expected)

    def _value(self, text: str, has: np.ndarray) -> None:
        name = f"x{len(self._values)}"
        self._lines.append(f"{name} = T.alloc_var('{has.dtype}', init={text})")
        self._values.append(Value(name, has))

    def _of(self, *dtypes: str) -> Value:
        """A value, of one of some dtypes if there is any."""
        return self.pick.one([v for v in self._values if v.dtype in dtypes] or self._values)

    # -- among lanes ----------------------------------------------------------------------------------------------
    def _shuffled(self) -> None:
        x, width = self.pick.one(self._values), self.pick.one(_WIDTHS)
        kind, delta = self.pick.one(("sync", "xor", "up", "down")), self.pick.below(width)
        lane, first = self._lane, self._lane // width * width
        amount = str(delta)
        if kind == "sync":
            step = self.pick.one((0, 1, 3, 5))
            amount = f"(lane * {step} + {delta})" if step else amount
            source = first + (lane * step + delta) % width
        elif kind == "xor":
            source = lane ^ delta
        else:
            there = lane - delta if kind == "up" else lane + delta
            source = np.where(there // width * width == first, there, lane)
        options = f", width={width}" if width != 32 or self.pick.often(20) else ""
        self._value(f"T.shfl_{kind}({x.name}, {amount}{options})", np.take_along_axis(x.has, source, axis=2))

    def _folded(self) -> None:
        x = self.pick.one(self._values)
        floating = x.dtype == "float32"
        op = self.pick.one(("max", "min") if floating and np.abs(x.has).max() > 2**18 else ("sum", "max", "min"))
        if not floating and self.pick.often(40):
            op = self.pick.one(("bitand", "bitor"))
        fold = {"sum": np.add, "max": np.maximum, "min": np.minimum, "bitand": np.bitwise_and, "bitor": np.bitwise_or}[op]
        total = fold.reduce(x.has, axis=2, keepdims=True, dtype=x.has.dtype)
        self._value(f"T.warp_reduce_{op}({x.name})", np.broadcast_to(total, self._shape))

    def _test(self) -> tuple[str, np.ndarray]:
        x, limit = self.pick.one(self._values), self.pick.one((0, 1, 2, 100))
        return f"{x.name} > {limit}", x.has > limit

    def _voted(self) -> None:
        text, holds = self._test()
        kind = self.pick.one(("ballot", "any", "all"))
        if kind == "ballot":
            bits = (holds.astype(np.uint32) << np.arange(32, dtype=np.uint32)).sum(axis=2, keepdims=True, dtype=np.uint32)
            self._value(f"T.cast(T.ballot_sync({text}), 'uint32')", np.broadcast_to(bits, self._shape))
            return
        found = (holds.any if kind == "any" else holds.all)(axis=2, keepdims=True)
        self._value(f"T.if_then_else(T.{kind}_sync({text}) != 0, T.int32(1), T.int32(0))",
                    np.broadcast_to(found.astype(np.int32), self._shape))  # fmt: skip

    def _matched(self) -> None:
        x = self._of("int32", "uint32", "int64")
        if x.dtype == "float32":
            return
        same = x.has[..., None] == x.has[..., None, :]
        bits = (same.astype(np.uint32) << np.arange(32, dtype=np.uint32)).sum(axis=3, dtype=np.uint32)
        if self.pick.often(30):
            bits = np.where(same.all(axis=(2, 3))[..., None], np.uint32(2**32 - 1), np.uint32(0))
            self._value(f"T.match_all_sync({x.name})", np.broadcast_to(bits, self._shape))
        else:
            self._value(f"T.match_any_sync({x.name})", bits)

    # -- in each thread, and among warps --------------------------------------------------------------------------
    def _computed(self) -> None:
        x = self.pick.one(self._values)
        y = self.pick.one([v for v in self._values if v.dtype == x.dtype])
        text, holds = self._test()
        with np.errstate(over="ignore"):
            made = [(f"T.max({x.name}, {y.name})", np.maximum(x.has, y.has)),
                    (f"T.if_then_else({text}, {x.name}, {y.name})", np.where(holds, x.has, y.has))]  # fmt: skip
            if x.dtype != "float32":
                made += [(f"{x.name} + {y.name}", x.has + y.has), (f"{x.name} ^ {y.name}", x.has ^ y.has)]
        self._value(*self.pick.one(made))

    def _rounded(self) -> None:
        """Arithmetic that names its rounding; what is exact is the same in every direction."""
        x = self._of("float32")
        y = self.pick.one([v for v in self._values if v.dtype == x.dtype])
        if x.dtype != "float32" or np.abs(x.has).max() * np.abs(y.has).max() > 2**18:
            return
        name, made = self.pick.one((("add", x.has + y.has), ("sub", x.has - y.has), ("mul", x.has * y.has)))
        mode = self.pick.one(("", ", 'rz'", ", 'ru'", ", 'rd'"))
        if "rd" in mode and name != "mul":  # the sign of an exact zero is the mode's, unless both terms have one
            second = y.has if name == "add" else -y.has
            unlike = np.signbit(x.has) != np.signbit(second)
            made = np.where((made == 0) & unlike, np.float32(-0.0), made)
        self._value(f"T.ieee_{name}({x.name}, {y.name}{mode})", made)

    def _tile(self, x: Value) -> str:
        """A new shared tile with an element for each thread."""
        self._shared += 1
        self._lines.append(f"s{self._shared} = T.alloc_shared(({self._shape[1] * self._shape[2]},), '{x.dtype}')")
        return f"s{self._shared}"

    def _exchanged(self) -> None:
        x = self.pick.one(self._values)
        blocks, warps, lanes = self._shape
        threads, step, first = warps * lanes, self.pick.one((1, 5, 31)), self.pick.below(64)
        tile = self._tile(x)
        self._lines += [f"{tile}[tx] = {x.name}", "T.sync_threads()"]
        place = (np.arange(threads) * step + first) % threads
        self._value(f"{tile}[(tx * {step} + {first}) % {threads}]", x.has.reshape(blocks, threads)[:, place].reshape(self._shape))

    def _within_warp(self) -> None:
        """Elements of other lanes, behind a barrier of the warp alone."""
        x, step, first = self.pick.one(self._values), self.pick.one((1, 5, 31)), self.pick.below(32)
        tile = self._tile(x)
        self._lines += [f"{tile}[tx] = {x.name}", "T.sync_warp()"]
        place = (self._lane * step + first) % 32
        self._value(f"{tile}[tx - lane + (lane * {step} + {first}) % 32]", np.take_along_axis(x.has, place, axis=2))

    def _within_group(self) -> None:
        """Elements of other threads of the first warps, behind a barrier of their own."""
        x = self.pick.one(self._values)
        blocks, warps, lanes = self._shape
        group = lanes * (1 + self.pick.below(warps))
        step, first, number = self.pick.one((1, 5, 31)), self.pick.below(64), 1 + self.pick.below(15)
        tile = self._tile(x)
        if number in self._barriers:  # warps of the last group may still wait there
            self._lines.append("T.sync_threads()")
            self._barriers.clear()
        self._barriers.add(number)
        found = x.has.reshape(blocks, warps * lanes).copy()
        found[:, :group] = found[:, (np.arange(group) * step + first) % group]
        self._value(x.name, found.reshape(self._shape))
        self._lines += [
            f"if tx < {group}:",
            f"    {tile}[tx] = {x.name}",
            f"    T.sync_threads({number}, {group})",
            f"    {self._values[-1].name} = {tile}[(tx * {step} + {first}) % {group}]",
        ]

    def _counted(self) -> None:
        """A barrier of the block that tells in how many threads something holds."""
        text, holds = self._test()
        kind = self.pick.one(("count", "and", "or"))
        found = {"count": np.sum, "and": np.all, "or": np.any}[kind](holds, axis=(1, 2), keepdims=True)
        self._value(f"T.cast(T.syncthreads_{kind}({text}), 'int32')", np.broadcast_to(found.astype(np.int32), self._shape))

    def _bits(self) -> None:
        """Words written to and read from memory, whatever is kept there."""
        x = self._of("int32", "uint32", "float32")
        if x.has.itemsize != 4:
            return
        words, tile = x.has.view(np.uint32), self._tile(x)
        if self.pick.often(50) and x.dtype == "uint32":
            self._lines.append(f"T.sts32({tile}[tx], {x.name})")
        else:
            self._lines.append(f"{tile}[tx] = {x.name}")
        self._value(f"T.lds32({tile}[tx])", words)
