"""The control flow of a thread-level program as closures over a warp.

Takes statements, gives `Code`: a function that runs at once, or one that makes a generator where a warp may have to
wait. Invariant: a statement is only run with at least one active lane; `break` and `continue` take lanes out of the
mask, and the loop that they belong to puts them back. Where a condition or a trip count is the same for all active
lanes, the mask is not changed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilelang.dtypes import DType
from tilelang.errors import NOWHERE
from tilelang.ir.scalar import convert
from tilelang.ir.stmt import Break, CallStmt, Continue, For, If, Seq, Stmt, While
from tilelang.ir.visit import jumps
from tilelang.isa.simulated import Wait
from tilelang.records import record
from tilelang.sim import violations
from tilelang.sim.effects import EffectCompiler
from tilelang.sim.lane_expressions import LaneCompiler, Slots, Value, per_lane, uniform_int
from tilelang.sim.register_loops import RegisterLoops
from tilelang.sim.warp import SimWarp
from tilelang.targets.target import Target

Run = Callable[[SimWarp], Any]
_TRIPS_PER_YIELD = 32  # iterations of a `while` after which other warps run
_ALONE = "none of those that run at the same time makes one, and other blocks may begin only when these have ended"


@record(slots=True)
class Code:
    """A statement ready to run.

    Attributes:
        run: Executes it for the active lanes; gives an iterator of waits if `waits`.
        waits: Whether a warp may have to wait in it.
        jumps: Whether lanes may leave the mask in it.
    """

    run: Run
    waits: bool = False
    jumps: bool = False


class StatementCompiler:
    """Closures for the statements of one program.

    Args:
        slots: The slots of variables and buffers in a warp.
        target: What the program is for.
        counting: Whether to count what is executed.
    """

    def __init__(self, slots: Slots, target: Target, *, counting: bool = False) -> None:
        self._slots = slots
        self._loc = NOWHERE  # of the innermost statement around that has a place
        self._lanes = LaneCompiler(slots, target.machine.warp_size)
        self._effects = EffectCompiler(slots, self._lanes, target, counting=counting)
        self._register_loops = RegisterLoops(slots, self._lanes, target.machine.warp_size)
        self._at_once = not counting  # whether to execute loops over registers so: one by one, operations are counted

    def compile(self, stmt: Stmt) -> Code:
        """The statement as code; one without a location has that of the enclosing one."""
        outer = self._loc
        if stmt.loc.file:
            self._loc = stmt.loc
        else:
            stmt = dataclasses.replace(stmt, loc=outer)
        try:
            return self._compile(stmt)
        finally:
            self._loc = outer

    def _compile(self, stmt: Stmt) -> Code:
        match stmt:
            case Seq(body=body):
                return self._seq([self.compile(part) for part in body])
            case For():
                return self._for(stmt)
            case While():
                return self._while(stmt)
            case If():
                return self._if(stmt)
            case Break():
                return Code(_break, jumps=True)
            case Continue():
                return Code(_continue, jumps=True)
            case CallStmt():
                return Code(self._effects.call(stmt), waits=True)
        return Code(self._effects.compile(stmt))

    # -- control flow ---------------------------------------------------------------------------------------
    def _seq(self, parts: list[Code]) -> Code:
        may_jump = any(part.jumps for part in parts)
        runs = [(part.run, part.waits, part.jumps) for part in parts]
        if any(part.waits for part in parts):

            def generate(w: SimWarp) -> Iterator[Wait]:
                for run, waits, part_jumps in runs:
                    if waits:
                        yield from run(w)
                    else:
                        run(w)
                    if part_jumps and not w.mask.any():
                        return

            return Code(generate, waits=True, jumps=may_jump)
        if not may_jump:
            plain = [part.run for part in parts]

            def execute(w: SimWarp) -> None:
                for run in plain:
                    run(w)

            return Code(execute)

        def execute_some(w: SimWarp) -> None:
            for run, _, part_jumps in runs:
                run(w)
                if part_jumps and not w.mask.any():
                    return

        return Code(execute_some, jumps=True)

    def _if(self, stmt: If) -> Code:
        test = self._lanes.data(stmt.condition)
        then = self.compile(stmt.then_body)
        other = Code(lambda w: None) if stmt.else_body is None else self.compile(stmt.else_body)
        loc, may_jump = stmt.loc, then.jumps or other.jumps
        if then.waits or other.waits:
            first, second = _generating(then), _generating(other)

            def generate(w: SimWarp) -> Iterator[Wait]:
                w.loc = loc
                ours, theirs = _split(test(w), w.mask)
                if theirs is None:
                    yield from first(w)
                elif ours is None:
                    yield from second(w)
                else:
                    w.set_mask(ours)
                    yield from first(w)
                    left = w.mask
                    w.set_mask(theirs)
                    yield from second(w)
                    w.set_mask(left | w.mask)

            return Code(generate, waits=True, jumps=may_jump)

        def execute(w: SimWarp) -> None:
            w.loc = loc
            ours, theirs = _split(test(w), w.mask)
            if theirs is None:
                then.run(w)
            elif ours is None:
                other.run(w)
            else:
                w.set_mask(ours)
                then.run(w)
                left = w.mask
                w.set_mask(theirs)
                other.run(w)
                w.set_mask(left | w.mask)

        return Code(execute, jumps=may_jump)

    def _for(self, stmt: For) -> Code:
        at_once = self._register_loops.compile(stmt) if self._at_once else None
        if at_once is None:
            return self._loop(stmt)
        self._at_once = False
        try:
            one_by_one = self._loop(stmt)
        finally:
            self._at_once = True

        def execute(w: SimWarp) -> None:
            if not at_once(w):
                one_by_one.run(w)

        return Code(execute)

    def _loop(self, stmt: For) -> Code:
        start, stop, step = self._lanes.index(stmt.start), self._lanes.index(stmt.stop), stmt.step
        slot = self._slots.var(stmt.var)
        body, loc = self.compile(stmt.body), stmt.loc
        may_jump = jumps(stmt.body)
        shape: Callable[[int], Value] = (lambda v: v) if stmt.var.index else _wrap(stmt.var.dtype)

        def trips(w: SimWarp) -> Iterator[Value | None]:
            """Gives the variable's value of each iteration, with the mask set; None once the loop is over."""
            w.loc = loc
            first, end = uniform_int(start(w), w.mask), uniform_int(stop(w), w.mask)
            outer, outer_broken = w.mask, w.broken
            uniform = isinstance(first, int) and isinstance(end, int)
            if uniform and not may_jump:
                for value in range(first, end, step):
                    yield shape(value)
                return
            w.broken = w.none
            counts = -((per_lane(first, w.size) - per_lane(end, w.size)) // step)
            for trip in range(max(0, int(counts[outer].max()))):
                alive = outer & ~w.broken & (counts > trip)
                if not alive.any():
                    break
                if not np.array_equal(alive, w.mask):
                    w.set_mask(alive)
                yield shape(first + trip * step)
            w.set_mask(outer)
            w.broken = outer_broken

        if body.waits:

            def generate(w: SimWarp) -> Iterator[Wait]:
                for value in trips(w):
                    w.env[slot] = value
                    yield from body.run(w)

            return Code(generate, waits=True)

        def execute(w: SimWarp) -> None:
            for value in trips(w):
                w.env[slot] = value
                body.run(w)

        return Code(execute)

    def _while(self, stmt: While) -> Code:
        test, body, loc = self._lanes.data(stmt.condition), _generating(self.compile(stmt.body)), stmt.loc

        def generate(w: SimWarp) -> Iterator[Wait]:
            outer, outer_broken = w.mask, w.broken
            w.broken = w.none
            alive, trips, before = outer, 0, None
            while True:
                w.loc = loc
                if alive is not w.mask:
                    w.set_mask(alive)
                ours, theirs = _split(test(w), alive)
                if ours is None:
                    break
                if theirs is not None:
                    alive = ours
                    w.set_mask(alive)
                yield from body(w)
                alive = alive & ~w.broken
                if not alive.any():
                    break
                trips += 1
                if trips == violations.MAX_ITERATIONS:
                    raise violations.endless()
                if trips % _TRIPS_PER_YIELD == 0:  # it may spin on a value that others write
                    spins = w.condition() == before
                    yield _change_of_memory(w) if spins else Wait("the scheduler", lambda: True, polls=True)
                    before = w.condition()
                    trips = 0 if spins else trips
            w.set_mask(outer)
            w.broken = outer_broken

        return Code(generate, waits=True)


def _break(w: SimWarp) -> None:
    w.broken = w.broken | w.mask
    w.set_mask(w.none)


def _continue(w: SimWarp) -> None:
    w.set_mask(w.none)


def _change_of_memory(w: SimWarp) -> Wait:
    """The wait of a spinning loop: registers and memory are the same as an iteration ago."""
    cluster = w.block.cluster
    version = cluster.version
    return Wait("a change of memory", lambda: cluster.version != version, lambda: _ALONE)


def _split(chosen: Value, mask: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The active lanes for which a condition holds, and the others; None in place of no lanes."""
    if np.ndim(chosen) == 0:
        return (mask, None) if chosen else (None, mask)
    ours, theirs = mask & chosen, mask & ~chosen
    return (ours if np.count_nonzero(ours) else None), (theirs if np.count_nonzero(theirs) else None)


def _generating(code: Code) -> Callable[[SimWarp], Iterator[Wait]]:
    """The code as a generator, whether or not it waits."""
    if code.waits:
        return code.run

    def generate(w: SimWarp) -> Iterator[Wait]:
        code.run(w)
        yield from ()

    return generate


def _wrap(dtype: DType) -> Callable[[Value], Value]:
    return lambda value: convert(value, dtype)
