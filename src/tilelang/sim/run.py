"""The simulator: runs a thread-level program for a GPU on NumPy arrays, and reports what would go wrong there.

Takes a function and its arguments, runs its launches in order, the blocks of each in an order drawn by seed, and the
warps of a block interleaved likewise. Invariant: it takes the program and the meanings of its instructions, never what
a pass thought necessary; the same seed gives the same run.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tilelang.call_stack import reserve_frames
from tilelang.errors import ArgumentError, BarrierDivergence, CompilerBug, ResourceError, SimulationError
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.launch import LaunchPlan, TensorMap
from tilelang.ir.stmt import Alloc, Bind, CallStmt, For, If, Launch, Seq, Stmt
from tilelang.ir.visit import expressions, loads_of, walk
from tilelang.isa.instruction import Effect, Instruction
from tilelang.isa.simulated import TensorMapView, Wait
from tilelang.records import record
from tilelang.sim.arguments import bind_arguments
from tilelang.sim.block import Block, Grid
from tilelang.sim.clocks import Clocks
from tilelang.sim.clusters import Cluster
from tilelang.sim.control_flow import StatementCompiler
from tilelang.sim.counters import Counters
from tilelang.sim.device_array import DeviceArray
from tilelang.sim.device_memory import Window
from tilelang.sim.early_launches import LaunchesInFront, Waits
from tilelang.sim.expressions import Evaluator
from tilelang.sim.history import AccessSites, History
from tilelang.sim.lane_expressions import Slots, Value
from tilelang.sim.memory import Memory, array_of
from tilelang.sim.proxies import Proxies
from tilelang.sim.races import RaceDetector
from tilelang.sim.scheduler import Schedule
from tilelang.sim.storage import Storage
from tilelang.sim.warp import SimWarp
from tilelang.targets.target import Target

_ARENA_ALIGNMENT = 1024  # bytes; of the shared memory of a block, and of buffers that no plan has placed
_POISON = 0xFF  # NaN in every float dtype that has one


@reserve_frames
def simulate(
    func: PrimFunc,
    arguments: Sequence[np.ndarray | int | float],
    *,
    target: Target,
    lazy: bool = True,
    seed: int = 0,
    held_back: int | None = None,
    report: Counters | None = None,
    printer: Callable[[str], object] = print,
) -> None:
    """Runs a thread-level function on arrays; outputs are written in place.

    Args:
        func: The function, as it would be printed for the target.
        arguments: One per parameter, in order: arrays for tensors, numbers for scalars.
        target: The GPU.
        lazy: Let asynchronous work happen as late as its waits allow; otherwise at once.
        seed: Draws the order of blocks and warps, and which warps are held back.
        held_back: The warp of a block, or of a cluster, that is held back, by number; None: as the seed draws it.
        report: Receives the counts of what was done.
        printer: Receives the text of every `T.print`.

    Raises:
        ArgumentError: An argument does not fit its parameter; nothing was run.
        SimulationError: The program would fail on the GPU; the subclass is the kind of failure.
        DeviceAssertError: An assertion of the program failed.
    """
    if func.level is not Level.THREAD:
        raise CompilerBug(f"{func.name}: the simulator runs thread-level programs")
    with func.loc, np.errstate(all="ignore"):
        Simulation(func, target, lazy, seed, held_back, report, printer).run(arguments)


class Simulation:
    """One run of one function: the host's side of it.

    Attributes:
        in_front: What the launches so far have done.
        rng: The source of the order of blocks and warps.
        held_back: See `simulate`.
    """

    def __init__(
        self,
        func: PrimFunc,
        target: Target,
        lazy: bool,
        seed: int,
        held_back: int | None,
        report: Counters | None,
        printer: Callable[[str], object],
    ) -> None:
        self._func, self._target, self._lazy = func, target, lazy
        self._counters, self._printer = report, printer
        self.rng, self.held_back = random.Random(seed), held_back
        self._evaluator = Evaluator(lambda buffer, where: self._memory.cells(buffer).load(where))
        self._memory = Memory(self._evaluator.indices)
        self._arrays: dict[Buffer, DeviceArray] = {}
        self.in_front = LaunchesInFront()

    def run(self, arguments: Sequence[np.ndarray | int | float]) -> None:
        """Binds the arguments and executes the body."""
        bind_arguments(self._func, arguments, self._evaluator, self._memory)
        self._execute(self._func.body)

    def _execute(self, stmt: Stmt) -> None:
        evaluator = self._evaluator
        with stmt.loc:
            match stmt:
                case Seq(body=body):
                    for part in body:
                        self._execute(part)
                case Bind(var=var, value=value):
                    evaluator.env[var] = evaluator.index(value) if var.index else evaluator.data(value)
                case Alloc(buffer=buffer):
                    if buffer.view_of is None:
                        self._memory.allocate(buffer)
                        self._arrays.pop(buffer, None)
                case If():
                    chosen = stmt.then_body if evaluator.data(stmt.condition) else stmt.else_body
                    if chosen is not None:
                        self._execute(chosen)
                case For():
                    for trip in range(evaluator.index(stmt.start), evaluator.index(stmt.stop), stmt.step):
                        evaluator.assign(stmt.var, trip)
                        self._execute(stmt.body)
                case Launch():
                    self._launch(stmt)
                case _:
                    raise CompilerBug(f"{type(stmt).__name__} is outside of a launch")

    def array(self, buffer: Buffer) -> DeviceArray:
        """The global memory that owns the bytes of a buffer."""
        storage = buffer.storage
        found = self._arrays.get(storage)
        if found is None:
            cells = self._memory.cells(storage)
            found = self._arrays[storage] = DeviceArray(storage, cells.data, bool((cells.written == cells.whole).all()))
        return found

    def _launch(self, stmt: Launch) -> None:
        grid = self._evaluator.indices(stmt.grid)
        blocks = [point[::-1] for point in itertools.product(*map(range, grid[::-1]))]
        self.rng.shuffle(blocks)
        counters = self._counters
        if counters is not None:
            counters.launches += 1
        launch = _Launch(self, stmt, many_blocks=len(blocks) > 1)
        launch.run(blocks)
        self.in_front.end(launch.accessed)

    # -- for launches ---------------------------------------------------------------------------------------
    @property
    def host_values(self) -> dict[object, Value]:
        """The values of the host's variables."""
        return dict(self._evaluator.env.items())

    def extents(self, buffer: Buffer) -> tuple[int, ...]:
        """A global buffer's shape in numbers, checked against its storage."""
        return tuple(self._memory.cells(buffer).extents)

    def numbers(self, exprs: tuple[Expr, ...]) -> tuple[int, ...]:
        """Return the values of extents that the host computes."""
        return self._evaluator.indices(exprs)

    def size(self, buffer: Buffer) -> int:
        """Bytes of a shared buffer."""
        return math.prod(self.numbers(buffer.shape)) * buffer.dtype.storage_bytes

    def check_shared(self, plan: LaunchPlan) -> None:
        """Refuses more shared memory than a block has, where that shows at the launch only."""
        most = self._target.machine.shared_bytes
        size = 0 if plan.dynamic_shared_bytes is None else self._evaluator.index(plan.dynamic_shared_bytes)
        if size > most:
            raise ResourceError(
                f"{self._func.name}: shared memory: {size} bytes requested, {most} available on {self._target.arch}",
                hint="reduce num_stages or the tiles",
            )

    def view(self, tensor_map: TensorMap) -> TensorMapView:
        """A map of a tensor in numbers, as the host encodes it."""
        tensor, box = tensor_map.tensor, tensor_map.box
        dims, strides = self._evaluator.indices(tensor_map.dims), self._evaluator.indices(tensor_map.strides)
        array = self.array(tensor)
        fault = tensor_map.fault(dims, strides, array.storage.base + array.begin)
        if fault:
            raise SimulationError(f"the map of '{tensor.name}' for copies of {box}: {fault}")
        return TensorMapView(tensor, dims, strides, box, tensor_map.swizzle, tensor_map.pixels, tensor_map.rounds)

    def compiler(self, slots: Slots) -> StatementCompiler:
        """Return the compiler of a launch's body."""
        return StatementCompiler(slots, self._target, counting=self._counters is not None)

    def block(
        self,
        index: tuple[int, ...],
        grid: Grid,
        cluster: Cluster,
        threads: int,
        clocks: Clocks,
        slots: Slots,
        window: Callable[[int], Window],
        *,
        has_bare_barriers: bool,
    ) -> Block:
        """A block that is about to run."""
        return Block(
            index,
            grid,
            cluster,
            threads,
            machine=self._target.machine,
            clocks=clocks,
            window=window,
            buffers=slots.buffers,
            lazy=self._lazy,
            counters=self._counters,
            printer=self._printer,
            has_bare_barriers=has_bare_barriers,
        )

    @property
    def warp_size(self) -> int:
        """Threads of a warp."""
        return self._target.machine.warp_size

    @property
    def counters(self) -> Counters | None:
        """Where things are counted, if anywhere."""
        return self._counters


@record(frozen=False, eq=False)
class _Running:
    """The blocks of a cluster that is running.

    Attributes:
        numbers: Their numbers in the race detector.
        blocks: What the warps of each share.
        warps: Their warps.
        schedule: What runs them.
    """

    numbers: list[int]
    blocks: list[Block]
    warps: list[SimWarp]
    schedule: Schedule[SimWarp]


class _Launch:
    """One launch: its code, its memory, and the accesses to it."""

    def __init__(self, simulation: Simulation, stmt: Launch, *, many_blocks: bool) -> None:
        self._simulation, self._stmt = simulation, stmt
        self._extents = stmt.hints.cluster
        blocks = math.prod(self._extents)
        self._clocks, self._places = Clocks(stmt.num_threads, blocks, warp_size=simulation.warp_size), AccessSites()
        self._races, self._many = RaceDetector(stmt, blocks, self._clocks), many_blocks
        self._slots = slots = Slots()
        slots.place = functools.cache(self._place)
        host_values = simulation.host_values
        slots.invariant.update(host_values, stmt.block_vars)  # type: ignore[arg-type]
        if stmt.thread is not None:
            slots.invariant.add(stmt.thread)
        for tensor_map in stmt.plan.tensor_maps:
            slots.buffer(tensor_map.tensor)
            slots.views[tensor_map.var] = simulation.view(tensor_map)
        self._code = simulation.compiler(slots).compile(stmt.body)
        self._env: list[Value] = [None] * slots.variables
        self._set(host_values)
        self._windows: dict[int, Window] = {}  # of global memory
        self._globals: dict[Buffer, DeviceArray] = {}
        self._arena_bytes, self._arena_unit, self._offsets = self._plan_arena()
        self._marks = {buffer: 1 + number % 255 for number, buffer in enumerate(self._offsets)}  # as flags of bytes
        begins_early = stmt.plan.waits_first or _has_effect(stmt.body, Effect.JOIN_LAUNCHES)
        self._waits = Waits(self._clocks) if begins_early else None
        self._grid = Grid(Proxies(self._clocks), self._races, self._waits)
        self._has_bare_barriers = _has_effect(stmt.body, Effect.JOIN_BLOCK)

    def run(self, blocks: Sequence[tuple[int, ...]]) -> None:
        """Runs the blocks, or clusters, one after another; with grid barriers, all of them from barrier to barrier."""
        if not _has_effect(self._stmt.body, Effect.SYNC_GRID):
            arenas = [self._arena() for _ in range(math.prod(self._extents))]
            windows: list[dict[int, Window]] = [{} for _ in arenas]
            for members in self._clusters(blocks):
                for arena in arenas:
                    arena.bytes[:] = _POISON
                    arena.undefine()
                self._resume(self._begin(members, arenas, windows))
            return
        running = [self._begin([index], [self._arena()], [{}]) for index in blocks]
        while running:
            self._simulation.rng.shuffle(running)
            waiting = [block for block in running if not self._resume(block)]
            if waiting and len(waiting) < len(blocks):
                raise self._unreached_sync(waiting[0], next(b for b in running if b not in waiting))
            running = waiting
            self._grid.syncs += 1
            self._races.grid_sync()

    def _clusters(self, blocks: Sequence[tuple[int, ...]]) -> list[list[tuple[int, ...]]]:
        """The blocks of each cluster by rank; clusters in the order of their first blocks."""
        together: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for index in blocks:
            together.setdefault(tuple(i // n for i, n in zip(index, self._extents, strict=False)), []).append(index)
        for members in together.values():
            members.sort(key=lambda index: index[::-1])
            if len(members) != math.prod(self._extents):
                raise SimulationError(f"the grid cannot be cut into clusters of {self._extents} blocks")
        return list(together.values())

    def _begin(
        self, indices: Sequence[tuple[int, ...]], arenas: Sequence[Storage], windows: Sequence[dict[int, Window]]
    ) -> _Running:
        """Starts the blocks of a cluster, each with its shared memory and the windows on it."""
        simulation, stmt = self._simulation, self._stmt
        cluster = Cluster(self._extents, self._clocks)
        numbers = [self._races.enter(index) for index in indices]
        if self._waits is not None:
            self._waits.begin_blocks()
        blocks, warps = [], []
        for index, arena, known in zip(indices, arenas, windows, strict=True):
            window = functools.partial(self._window, arena, known)
            block = simulation.block(
                index, self._grid, cluster, stmt.num_threads, self._clocks, self._slots, window,
                has_bare_barriers=self._has_bare_barriers,
            )  # fmt: skip
            blocks.append(block)
            self._set(dict(zip(stmt.block_vars, index, strict=True)))
            for place in range(-(-stmt.num_threads // simulation.warp_size)):
                warp = SimWarp(block, place, list(self._env))
                if stmt.thread is not None and self._slots.has_slot(stmt.thread):
                    warp.env[self._slots.var(stmt.thread)] = warp.threads
                warps.append(warp)

        def resumed(warp: SimWarp) -> None:
            self._races.block = numbers[warp.rank]

        barriers = [block.barriers for block in blocks]
        schedule = Schedule(warps, self._start, simulation.rng, barriers, resumed, simulation.held_back)
        return _Running(numbers, blocks, warps, schedule)

    def _resume(self, running: _Running) -> bool:
        """Runs blocks to their end, or to where they wait for others; whether they have ended."""
        self._races.block = running.numbers[0]
        self._clocks.begin_block()
        if not running.schedule.run():
            return False
        self._clocks.synchronize_all()
        for warp in running.warps:
            warp.async_work.finish()
        for block in running.blocks:
            block.pending_transfers.finish()
        counters = self._simulation.counters
        if counters is not None:
            counters.blocks += len(running.blocks)
            counters.warps += len(running.warps)
            counters.barriers += sum(block.barriers.full_syncs for block in running.blocks)
        return True

    def _unreached_sync(self, waits: _Running, ended: _Running) -> BarrierDivergence:
        return BarrierDivergence(
            f"T.sync_grid: block {waits.blocks[0].index} waits for all others, but block {ended.blocks[0].index} has "
            "ended without coming there",
            loc=waits.warps[0].loc,
            hint="let all blocks reach it equally often: move it out of the branch or loop",
        )

    def _start(self, warp: SimWarp) -> Iterator[Wait]:
        if self._code.waits:
            yield from self._code.run(warp)
        else:
            self._code.run(warp)
        warp.block.cluster.exit_warp((warp.rank, warp.index))

    def _set(self, values: dict[object, Value]) -> None:
        for var, value in values.items():
            if self._slots.has_slot(var):
                self._env[self._slots.var(var)] = value

    # -- memory ---------------------------------------------------------------------------------------------
    @property
    def accessed(self) -> dict[Buffer, bool]:
        """The global memory that was accessed so far, and whether the launch may write it."""
        return {storage: self._races.unit(storage) is not None for storage in self._globals}

    def _window(self, arena: Storage, shared: dict[int, Window], slot: int) -> Window:
        buffer = self._slots.buffers[slot]
        known = self._windows if buffer.scope is Scope.GLOBAL else shared
        found = known.get(slot)
        if found is None:
            found = self._global(buffer) if buffer.scope is Scope.GLOBAL else self._shared(buffer, arena)
            known[slot] = found
        return found

    def _shared(self, buffer: Buffer, arena: Storage) -> Window:
        if buffer.storage not in self._offsets:
            raise CompilerBug(f"'{buffer.name}' has no offset in shared memory")
        begin, extents = self._offsets[buffer.storage], self._simulation.numbers(buffer.shape)
        return Window(buffer, arena, begin, extents, mark=self._marks[buffer.storage])

    def _global(self, buffer: Buffer) -> Window:
        array = self._simulation.array(buffer)
        storage = buffer.storage
        extents = self._simulation.extents(buffer)
        window = Window(buffer, array.storage, array.begin, extents, array.strides if buffer is storage else None)
        if storage not in self._globals:
            self._globals[storage] = array
            self._record(storage, array, window)
        return window

    def _place(
        self, buffer: Buffer, address: int, extents: tuple[int, ...], strides: tuple[int, ...] | None
    ) -> Window:
        """The memory of this process at an address."""
        array = DeviceArray(buffer, array_of(buffer, address, extents, strides), defined=True)
        window = Window(buffer, array.storage, array.begin, extents, array.strides)
        self._record(buffer, array, window)
        return window

    def _record(self, storage: Buffer, array: DeviceArray, window: Window) -> None:
        """Watches the accesses to global memory that the launch may write."""
        memory, unit = array.storage, self._races.unit(storage)
        memory.history = memory.shadow = memory.guard = None
        if self._waits is not None:
            waits_first = self._stmt.plan.waits_first
            memory.guard = self._simulation.in_front.guard(storage, self._waits, waits_first=waits_first)
        if unit is None:
            return
        if not array.writable:
            raise ArgumentError(
                f"argument '{storage.name}': is read-only, but the kernel writes it", hint="pass a copy of it"
            )
        memory.unit = unit
        memory.history = History(memory.bytes.size // unit, self._clocks, self._places)
        if self._many:
            memory.shadow = self._races.flat_shadow(storage, memory.bytes.size, window.element_of_unit)

    def _plan_arena(self) -> tuple[int, int, dict[Buffer, int]]:
        """Return the bytes of shared memory, the units by which they are accessed, and the offsets of buffers in them.

        Buffers without an offset in the plan follow the others.
        """
        plan = self._stmt.plan
        tail = {buffer: self._simulation.numbers((offset,))[0] for buffer, offset in plan.dynamic_shared_offsets}
        offsets = {**dict(plan.shared_offsets), **tail}
        named = {buffer for buffer in _buffers(self._stmt.body) if buffer.scope in (Scope.SHARED, Scope.BARRIER)}
        named.update(offsets)
        size = plan.shared_bytes
        for buffer, offset in offsets.items():
            size = max(size, offset + self._simulation.size(buffer))
        for buffer in sorted((b for b in named if b.view_of is None and b not in offsets), key=_order_of(self._slots)):
            offsets[buffer] = -(-size // _ARENA_ALIGNMENT) * _ARENA_ALIGNMENT
            size = offsets[buffer] + self._simulation.size(buffer)
        self._simulation.check_shared(plan)
        return size, min((buffer.dtype.numpy.itemsize for buffer in named), default=1), offsets

    def _arena(self) -> Storage:
        """The shared memory of a block, in which nothing is defined."""
        arena = Storage(np.full(self._arena_bytes, _POISON, np.uint8))
        arena.unit = self._arena_unit
        arena.history = History(-(-self._arena_bytes // arena.unit), self._clocks, self._places)
        arena.undefine()
        return arena


def _has_effect(body: Stmt, effect: Effect) -> bool:
    """Whether an instruction in a body has an effect."""
    routines = (stmt.routine for stmt in walk(body) if isinstance(stmt, CallStmt))
    return any(isinstance(routine, Instruction) and effect in routine.effect for routine in routines)


def _order_of(slots: Slots) -> Callable[[Buffer], int]:
    return slots.buffer


def _buffers(stmt: Stmt) -> Iterator[Buffer]:
    """All buffers that a statement and those below it name."""
    for part in walk(stmt):
        buffer = getattr(part, "buffer", None)
        if isinstance(buffer, Buffer):
            yield buffer
        if isinstance(part, CallStmt):
            yield from (o.buffer for o in (*part.args, *part.reads, *part.writes) if isinstance(o, Region))
        for root in expressions(part):
            yield from (node.buffer for node in loads_of(root))
