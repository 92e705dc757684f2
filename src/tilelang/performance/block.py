"""Estimates one block of a thread-level program: the work of each unit, and the time without other blocks.

An abstract interpreter: every statement is visited once for all threads of the block, each of which has an element in
the values of index expressions. Of a loop the first iteration is visited, and a few that stand for all others. A clock
advances by the instructions that are issued, and stalls where a value is used whose load is still in flight. Waits for
pipelined copies are those of `load_barriers`; of copies that are waited for in groups, `n` in flight bound the time of
an iteration by the latency of a copy over `n`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var
from tilelang.ir.scalar import Value
from tilelang.ir.stmt import Alloc, Atomic, Bind, CallStmt, For, ForKind, If, Launch, Seq, Stmt, Store, While
from tilelang.ir.visit import loads_of, variables_of
from tilelang.isa.instruction import Effect, ExecutionScope, Instruction
from tilelang.layout.shared_memory import INACTIVE
from tilelang.performance.arithmetic import instructions_of
from tilelang.performance.load_barriers import LoadBarriers
from tilelang.performance.structure import box_bytes, depends_on, dynamic_tile, is_unrollable, typical_tiles, votes
from tilelang.performance.threads import Threads
from tilelang.performance.values import first_of
from tilelang.performance.work import BlockWork, Unit
from tilelang.targets.machine import Machine, Rates

_DEFAULT_TRIPS = 4  # iterations of a loop whose number depends on data
_LOOP_OVERHEAD = 3  # instructions of an iteration: count, compare, branch
_ADDRESS_REGISTERS = 12  # of a thread, which hold addresses and counters rather than loaded values
_MAX_SHARED_LATENCIES = 4  # latencies of shared memory: what takes longer comes from device memory
_COMPILER_UNROLL = 4  # iterations of an unrollable loop that the machine's compiler unrolls
_VOTED_SHARE = 0.25  # of the time that warps do what they vote on; they vote where they can mostly skip it
_KEPT_SHARE = 1 / 64  # where a scalar keeps the vote: the compiler keeps those on what hardly ever happens
_SAMPLED_TRIPS = 5  # iterations of a loop that decide how long others inside take

_Key = tuple[object, int]


def estimate_block(
    launch: Launch, machine: Machine, rates: Rates, block: tuple[int, ...], registers: int, *, fast_math: bool
) -> BlockWork:
    """The work of one block.

    Args:
        launch: The launch, at thread level.
        machine: The machine that it was lowered for.
        rates: How fast that machine is.
        block: The index of the block, per dimension of the grid.
        registers: Registers of a thread.
        fast_math: Whether functions are the fast ones.
    """
    estimator = _BlockEstimator(launch, machine, rates, block, registers, fast_math=fast_math)
    estimator.run(launch.body)
    work = estimator.work
    work.duration = work.max_duration = estimator.now
    work.memory_stalls = estimator.memory_stalls
    return work


class _BlockEstimator:
    def __init__(
        self, launch: Launch, machine: Machine, rates: Rates, block: tuple[int, ...], registers: int, *, fast_math: bool
    ) -> None:
        self._machine, self._rates, self._fast_math = machine, rates, fast_math
        threads = launch.num_threads
        self._block: dict[Var, Value] = dict(zip(launch.block_vars, block, strict=True))
        own = {} if launch.thread is None else {launch.thread: np.arange(threads, dtype=np.int64)}
        self._threads = Threads(threads, machine, {**self._block, **own})
        self._values = self._threads.values
        self._blocks = math.prod(self._values.number(extent) or 1 for extent in launch.grid)
        self._dynamic_tiles: set[Var] = set()  # tiles that blocks take from a counter
        self._maps = {each.var: each for each in launch.plan.tensor_maps}
        self._window_registers = max(4, registers - _ADDRESS_REGISTERS)
        self._loads = LoadBarriers(launch.body, rates)
        self._votes = votes(launch.body)
        self.work = BlockWork()
        self.now = float(rates.block)
        self.memory_stalls = 0.0  # cycles of the clock in which memory was waited for
        self._executions = 1.0  # how often the statement at hand is executed, but for unrolled loops
        self._unrolled: list[tuple[Var, int]] = []
        self._ready: dict[_Key, float] = {}
        self._groups: dict[object, list[float]] = {}  # per asynchronous unit, when its groups are complete
        self._matrix_free = 0.0  # when the matrix units have done what was issued
        self._overlap = 1  # iterations of the innermost loop whose loads are on their way together
        self._iteration_bounds: list[float] = []  # cycles that an iteration of the innermost loop takes at least
        self._stored = 0.0  # bytes of asynchronous stores since the last commit

    # -- statements -----------------------------------------------------------------------------------------
    def run(self, stmt: Stmt) -> None:
        """Visits a statement."""
        match stmt:
            case Seq(body=body):
                for each in body:
                    self.run(each)
            case For():
                mask = self._threads.mask
                if self._threads.iterate(stmt):
                    self._loop(stmt)
                self._threads.select(mask)
            case While(condition=condition, body=body):
                self._compute(condition)
                self._repeat(body, _DEFAULT_TRIPS)
            case If(condition=Load(buffer=kept), then_body=then, else_body=other) if kept in self._votes:
                self._choice(then, other or Seq(()))
            case If():
                self._branch(stmt)
            case Bind(var=var, value=value):
                if var not in self._dynamic_tiles:
                    self._values.bind(var, self._values.of(value))
                self._ready[var, 0] = self._compute(value)
            case Alloc(buffer=buffer, init=init):
                if init is not None:
                    self._values.begin(buffer, init)
                    self._compute(init)
            case Store(buffer=buffer, indices=indices, value=value):
                self._store(buffer, indices, value)
            case Atomic(buffer=buffer, indices=indices, value=value, result=result):
                self._atomic(buffer, indices, value, result)
            case CallStmt(routine=Instruction() as instruction):
                self._call(stmt, instruction)
            case _:
                self._issue(1)

    def _loop(self, loop: For) -> None:
        start, stop = self._threads.mean(loop.start), self._threads.mean(loop.stop)
        trips = _DEFAULT_TRIPS if start is None or stop is None else max(1, len(range(start, stop, loop.step)))
        if (number := dynamic_tile(loop)) is not None:
            self._values.bind(loop.var, start)
            self._dynamic_tiles.add(number)
            tiles = typical_tiles(loop.body, number, trips, self._block, _SAMPLED_TRIPS)
            self._repeat(loop.body, -(-trips // self._blocks), number, tiles)
            return
        if loop.kind in (ForKind.UNROLLED, ForKind.VECTORIZED):
            self._values.bind(loop.var, start)
            self._unrolled.append((loop.var, trips))
            self.run(loop.body)
            self._unrolled.pop()
            return
        outer, self._overlap = self._overlap, min(trips, _COMPILER_UNROLL) if is_unrollable(loop.body) else 1
        samples = min(trips, _SAMPLED_TRIPS) if depends_on(loop.body, [loop.var], For) else 1
        places = [int(trips * (sample + 0.5) / samples) for sample in range(samples)]
        self._repeat(loop.body, trips, loop.var, [None if start is None else start + loop.step * at for at in places])
        self._overlap = outer

    def _repeat(self, body: Stmt, trips: int, var: Var | None = None, samples: Sequence[int | None] = (None,)) -> None:
        """Visits the first iteration, and samples that stand for all others.

        Args:
            body: The body of the loop.
            trips: The number of iterations.
            var: The loop variable.
            samples: Values of the loop variable that stand for all but the first.
        """
        outer, self._iteration_bounds = self._iteration_bounds, []
        times, factor, unrolled = self._executions, self._unroll, self._unrolled
        self._unrolled = []
        rest = trips - 1
        self._iterate(body, var, samples[0], times * factor)
        for sample in samples if rest else ():
            share = rest / len(samples)
            before, waited = self.now, self.memory_stalls
            self._iteration_bounds = []
            self._iterate(body, var, sample, times * factor * share)
            least = max(self._iteration_bounds, default=0.0)
            taken, waits = self.now - before, self.memory_stalls - waited
            if least > taken:
                taken, waits = least, least
            self._advance(before + taken * share * factor - self.now)
            self.memory_stalls = waited + waits * share * factor
        self._executions, self._unrolled, self._iteration_bounds = times, unrolled, outer

    def _iterate(self, body: Stmt, var: Var | None, value: int | None, times: float) -> None:
        self._executions = times
        if var is not None:
            self._values.bind(var, value)
        self._issue(_LOOP_OVERHEAD)
        self.run(body)

    def _advance(self, cycles: float) -> None:
        """Advances the clock; what is in flight completes by as much later."""
        self.now += cycles
        self._matrix_free += cycles
        self._loads.advance(cycles)
        for key in self._ready:
            self._ready[key] += cycles
        for unit, times in self._groups.items():
            self._groups[unit] = [time + cycles for time in times]

    def _wait_until(self, time: float) -> None:
        """Stalls until a time, such as that at which a load completes."""
        if time - self.now > _MAX_SHARED_LATENCIES * self._rates.shared_latency:
            self.memory_stalls += time - self.now
        self.now = max(self.now, time)

    def _branch(self, stmt: If) -> None:
        self._compute(stmt.condition)
        parts = self._threads.bodies(stmt)
        share = _VOTED_SHARE if stmt.condition in self._votes else 1.0
        self._executions *= share
        start, mask, free, waiting = self.now, self._threads.mask, self._matrix_free, self.memory_stalls
        ends: list[tuple[float, float, float]] = []
        for body, part in parts:
            if body is None or not part.any():
                continue
            self.now, self._matrix_free, self.memory_stalls = start, free, waiting
            self._threads.select(part)
            self.run(body)
            ends.append((self.now, self.memory_stalls, self._matrix_free))
        self._threads.select(mask)
        self._executions /= share
        if ends:
            end, stalls, _ = max(ends)
            self.now, self.memory_stalls = start + share * (end - start), waiting + share * (stalls - waiting)
            self._matrix_free = max(free for _, _, free in ends)

    def _choice(self, seldom: Stmt, mostly: Stmt) -> None:
        """Visits the bodies between which a kept vote chooses; what the first leaves in flight counts as done."""
        start = ends = np.array((self.now, self._matrix_free, self.memory_stalls))
        ready, groups, times = self._ready, self._groups, self._executions
        for body, share in ((seldom, _KEPT_SHARE), (mostly, 1 - _KEPT_SHARE)):
            self.now, self._matrix_free, self.memory_stalls = start.tolist()
            self._ready, self._groups = dict(ready), {unit: [*done] for unit, done in groups.items()}
            self._executions = times * share
            self.run(body)
            ends = ends + share * (np.array((self.now, self._matrix_free, self.memory_stalls)) - start)
        (self.now, self._matrix_free, self.memory_stalls), self._executions = ends.tolist(), times

    # -- instructions ---------------------------------------------------------------------------------------
    @property
    def _unroll(self) -> int:
        """How often unrolled loops repeat the current statement: the product of their factors."""
        return math.prod(trips for _, trips in self._unrolled)

    def _count(self, unit: Unit, cycles: float) -> None:
        """Work of a unit, of one copy of the statement and all warps."""
        self.work.cycles[unit] += cycles * self._executions * self._unroll

    def _issue(self, instructions: float, special: float = 0.0, conversions: float = 0.0) -> None:
        """All warps issue instructions; the clock is that of one of them."""
        warps, rates = self._threads.warps, self._rates
        lanes = warps * self._machine.warp_size
        issued = instructions + special + conversions
        self._count(Unit.ISSUE, issued * lanes / rates.lanes)
        self._count(Unit.SPECIAL, special * lanes / rates.special)
        self._count(Unit.CONVERSION, conversions * lanes / rates.conversions)
        # the clock is that of one warp; what others of the block delay it is in the work of the units
        self.now += (issued + special * (self._machine.warp_size * rates.schedulers / rates.special - 1)) * self._unroll

    def _compute(self, expr: Expr) -> float:
        """Loads what an expression needs, and computes it; gives when the value is there."""
        ready = self.now
        for load in loads_of(expr):
            ready = max(ready, self._loaded(load))
        if isinstance(expr, Load):
            return ready
        needed = instructions_of(expr, self._rates, fast_math=self._fast_math)
        if not needed.issued:
            return ready
        self._wait_until(ready)
        self._issue(needed.ordinary, needed.special, needed.conversions)
        return self.now + self._rates.arithmetic_latency

    def _loaded(self, load: Load) -> float:
        """Loads one element, or the lanes of a vector; gives when it is there."""
        match load.buffer.scope:
            case Scope.GLOBAL:
                return self._global_load(load.buffer, load.indices, load.dtype.storage_bytes)
            case Scope.SHARED:
                return self._shared("load", load.buffer, load.indices, load.dtype.storage_bytes)
        return self._ready_of(load.buffer, self._values.offset(load.buffer, load.indices))

    def _store(self, buffer: Buffer, indices: tuple[Expr, ...], value: Expr) -> None:
        before = self.now
        ready = self._compute(value)
        width = value.dtype.storage_bytes
        match buffer.scope:
            case Scope.GLOBAL:
                self._wait_until(ready)
                self._global_store(buffer, indices, width)
            case Scope.SHARED:
                self._wait_until(ready)
                self._shared("store", buffer, indices, width)
            case _:
                if any(load.buffer is buffer for load in loads_of(value)):
                    # a sum that each copy of the statement continues
                    used = frozenset().union(*(variables_of(index) for index in indices)) if indices else frozenset()
                    chain = math.prod(trips for var, trips in self._unrolled if var not in used)
                    self.now = max(self.now, before + chain * self._rates.arithmetic_latency)
                self._set_ready(buffer, self._values.offset(buffer, indices), max(ready, self.now))

    def _atomic(self, buffer: Buffer, indices: tuple[Expr, ...], value: Expr | None, result: Var | None) -> None:
        if value is not None:
            self._wait_until(self._compute(value))
        width = buffer.dtype.storage_bytes if value is None else value.dtype.storage_bytes
        if buffer.scope is Scope.GLOBAL:
            self._global_store(buffer, indices, width)
        else:
            self._shared("store", buffer, indices, width)
        if result is not None:
            self._ready[result, 0] = self.now + self._rates.memory_latency

    # -- values on their way --------------------------------------------------------------------------------
    def _set_ready(self, buffer: Buffer, place: Value | None, time: float) -> None:
        self._ready[buffer, first_of(place)] = time

    def _ready_of(self, buffer: Buffer, place: Value | None) -> float:
        exact = self._ready.get((buffer, first_of(place)))
        if exact is not None:
            return exact
        return max((time for (other, _), time in self._ready.items() if other is buffer), default=0.0)

    # -- memory ---------------------------------------------------------------------------------------------
    def _global_load(self, buffer: Buffer, indices: tuple[Expr, ...], width: int) -> float:
        size = self._threads.sector_bytes(buffer, indices, width)
        self.work.loaded[buffer] += size * self._executions * self._unroll
        self._count(Unit.LOAD, size / self._rates.loaded_bytes)
        self._issue(1)
        # as many loads are on their way as there are registers for what they load
        window = max(1.0, self._window_registers / max(1, width // 4))
        least = 1 / self._overlap
        self._wait_until(self.now + self._rates.memory_latency * max(0.0, self._unroll / window - least))
        return self.now + self._rates.memory_latency * least

    def _global_store(self, buffer: Buffer, indices: tuple[Expr, ...], width: int) -> None:
        size = self._threads.sector_bytes(buffer, indices, width)
        self.work.stored[buffer] += size * self._executions * self._unroll
        self._count(Unit.STORE, size / self._rates.stored_bytes)
        self._issue(1)

    def _shared(self, kind: str, buffer: Buffer, indices: tuple[Expr, ...], width: int) -> float:
        """An access to shared memory; gives when a load has its value."""
        return self._wavefronts(kind, self._threads.addresses(buffer, indices), width)

    def _wavefronts(self, kind: str, addresses: np.ndarray | None, width: int) -> float:
        cycles = self._threads.shared_cycles(kind, addresses, width)
        self._count(Unit.SHARED, cycles * self._threads.warps)
        self._issue(1)
        self.now += (cycles - 1) * self._unroll
        return self.now + self._rates.shared_latency

    # -- calls ----------------------------------------------------------------------------------------------
    def _call(self, call: CallStmt, instruction: Instruction) -> None:
        for arg in call.args:
            if isinstance(arg, Region):
                if arg.buffer.scope in (Scope.LOCAL, Scope.VAR) and instruction.matrix is None:
                    self._wait_until(self._ready_of(arg.buffer, self._values.offset(arg.buffer, arg.start)))
            else:
                self._wait_until(self._compute(arg))
        if call.result is not None:
            self._values.bind(call.result, self._threads.result_of(call, instruction))
        if instruction.matrix is not None:
            self._multiply(call, instruction)
        elif instruction.async_unit is not None:
            self._asynchronous(call, instruction)
        elif instruction.shared_rows[0]:
            self._load_matrices(call, instruction)
        elif any(isinstance(arg, Region) and arg.buffer.scope is Scope.BARRIER for arg in call.args):
            self._barrier(call, instruction)
        elif instruction.effect & (Effect.SYNC_BLOCK | Effect.SYNC_SOME | Effect.JOIN_BLOCK):
            self._issue(1)
            self.now += self._rates.barrier
        else:
            self._other(call, instruction)

    def _other(self, call: CallStmt, instruction: Instruction) -> None:
        """Shuffles, loads and stores with hints, and what costs an issue slot only."""
        latency = 0.0
        for arg in call.args:
            if isinstance(arg, Region) and arg.buffer.scope is Scope.GLOBAL:
                dtype = instruction.result
                if dtype is not None:
                    latency = self._global_load(arg.buffer, arg.start, dtype.storage_bytes) - self.now
                elif not instruction.optional:
                    values = [a for a in call.args if not isinstance(a, Region)]
                    self._global_store(arg.buffer, arg.start, values[0].dtype.storage_bytes if values else 4)
                break
        else:
            if instruction.execution_scope is ExecutionScope.WARP:
                self._count(Unit.SHARED, self._threads.warps)
                latency = self._rates.shuffle_latency
            self._issue(1)
        if call.result is not None:
            self._ready[call.result, 0] = self.now + latency

    def _load_matrices(self, call: CallStmt, instruction: Instruction) -> None:
        """Loads or stores of matrices by a warp, between shared memory and registers."""
        count, width = instruction.shared_rows
        shared = next(a for a in call.args if isinstance(a, Region) and a.buffer.scope is Scope.SHARED)
        addresses = self._threads.addresses(shared.buffer, shared.start)
        if addresses is not None:
            addresses = np.where(np.arange(len(addresses)) < count, addresses, INACTIVE)
        ready = self._wavefronts("load", addresses, width)
        for arg in call.args:
            if isinstance(arg, Region) and arg.buffer.scope is Scope.LOCAL:
                self._set_ready(arg.buffer, self._values.offset(arg.buffer, arg.start), ready)

    def _multiply(self, call: CallStmt, instruction: Instruction) -> None:
        matrix, rates, warps = instruction.matrix, self._rates, self._threads.warps
        assert matrix is not None
        operations = 2 * matrix.multiply_adds * matrix.operand_bits / 16
        by_group = instruction.execution_scope is ExecutionScope.WARP_GROUP
        share = rates.matrix_by_group if by_group else rates.matrix_by_warp
        executed = max(1, warps // rates.warps_per_group) if by_group else warps
        cycles = max(operations / rates.matrix / share, matrix.shared_bytes / rates.shared_bytes) * executed
        self._count(Unit.MATRIX, cycles)
        self._count(Unit.SHARED, matrix.shared_bytes / rates.shared_bytes * executed)
        self.work.matrix_cycles += operations / rates.matrix * executed * self._executions * self._unroll
        for arg in call.args[1:]:
            if isinstance(arg, Region):
                self._wait_until(self._ready_of(arg.buffer, self._values.offset(arg.buffer, arg.start)))
        self._issue(1)
        # groups of warps share the matrix units, which each warp has a quarter of
        own = cycles * self._unroll * (1 if by_group else rates.schedulers / warps)
        self._matrix_free = max(self._matrix_free, self.now) + own
        if not by_group:
            self.now = max(self.now, self._matrix_free - own / self._unroll)
            c = call.args[0]
            if isinstance(c, Region):
                self._set_ready(c.buffer, self._values.offset(c.buffer, c.start), self.now + rates.shared_latency)

    def _asynchronous(self, call: CallStmt, instruction: Instruction) -> None:
        unit, effect = instruction.async_unit, instruction.effect
        assert unit is not None
        groups = self._groups.setdefault(unit, [])
        is_matrix = instruction.execution_scope is ExecutionScope.WARP_GROUP
        if Effect.COMMIT in effect:
            self._issue(1)
            if is_matrix:
                groups.append(self._matrix_free + self._rates.matrix_latency)
            elif unit.reads_asynchronously:
                groups.append(self.now + self._rates.shared_latency + self._stored / self._rates.stored_bytes)
                self._stored = 0.0
            else:
                groups.append(self.now + self._rates.memory_latency)
        elif Effect.WAIT in effect:
            self._issue(1)
            self._wait(call, instruction, groups, bounded=not is_matrix and not unit.reads_asynchronously)
        elif Effect.FENCE in effect:
            self._issue(1)
        else:
            self._copy(call, stores=unit.reads_asynchronously)

    def _wait(self, call: CallStmt, instruction: Instruction, groups: list[float], *, bounded: bool) -> None:
        pending = instruction.pending
        if pending is None:
            pending = (self._threads.mean(call.args[0]) or 0) if call.args and isinstance(call.args[0], Expr) else 0
        if len(groups) > pending and bounded:
            self._wait_until(groups[-1 - pending])
        elif len(groups) > pending:
            self.now = max(self.now, groups[-1 - pending])
        if bounded:
            self._iteration_bounds.append(self._rates.memory_latency / (pending + 1))

    def _copy(self, call: CallStmt, *, stores: bool) -> None:
        """An asynchronous copy between global and shared memory."""
        tensor_map = next((self._maps[a] for a in call.args if isinstance(a, Var) and a in self._maps), None)
        regions = [a for a in (*call.args, *call.reads, *call.writes) if isinstance(a, Region)]
        moved = next((region for region in regions if region.buffer.scope is Scope.GLOBAL), None)
        threads = int(self._threads.mask.sum())
        if tensor_map is not None:
            size, buffer = float(box_bytes(tensor_map)), tensor_map.tensor
            self.now += self._rates.box_copy_issue * self._unroll
            self._issue(1)
        elif moved is not None:
            extents = [self._threads.mean(extent) or 1 for extent in moved.extent]
            width = math.prod(extents) * moved.dtype.storage_bytes
            size, buffer = float(width * threads), moved.buffer
            if threads > 1:
                size = self._threads.sector_bytes(buffer, moved.start, width)
                self._wavefronts("store", None, width)
            else:
                self._issue(1)
        else:
            self._issue(1)
            return
        amount = size * self._executions * self._unroll
        if stores:
            self.work.stored[buffer] += amount
            self._count(Unit.STORE, size / self._rates.stored_bytes)
            self._stored += size * self._unroll
        else:
            self.work.loaded[buffer] += amount
            self._count(Unit.LOAD, size / self._rates.loaded_bytes)

    def _barrier(self, call: CallStmt, instruction: Instruction) -> None:
        """An arrival or a wait at a barrier in shared memory."""
        self._issue(2)
        region = next(a for a in call.args if isinstance(a, Region) and a.buffer.scope is Scope.BARRIER)
        barrier = region.buffer.storage
        if not instruction.waits:
            self._loads.arrive(barrier, self.now)
        elif barrier in self._loads.releases:
            self.now += self._rates.shared_latency
            self._wait_until(self._loads.ready(barrier, self.now))
            self._iteration_bounds.append(self._loads.least_iteration(barrier))
