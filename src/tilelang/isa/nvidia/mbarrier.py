"""Barriers in shared memory that count arrivals: any thread arrives, any thread waits, and phases follow each other.

Gives the instructions `MBARRIER_INIT`, `MBARRIER_ARRIVE`, `MBARRIER_WAIT`, `MBARRIER_TEST_WAIT`, `MBARRIER_INVAL`,
`MBARRIER_CP_ASYNC_ARRIVE`, `MBARRIER_EXPECT_TX`, `MBARRIER_ARRIVE_EXPECT_TX` and `FENCE_MBARRIER_INIT`. Invariant: a
phase is complete when as many arrivals as the barrier was initialized with have come, and all bytes that were
announced, which may come before they are; the next phase begins then. Waiting for parity p returns once the phase of
parity p is complete, so that a fresh barrier, whose phase 0 is under way, lets those through that wait for parity 1.
Arriving releases what the thread did before, and waiting acquires what those did who arrived.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

import numpy as np

from tilelang.dtypes import BOOL
from tilelang.errors import SimulationError
from tilelang.isa.instruction import Effect, Instruction, Timeline
from tilelang.isa.intrinsic import Helper
from tilelang.isa.machine import LANES, Pointer, Transfer, Wait, Warp
from tilelang.isa.nvidia.lanes import integers
from tilelang.records import record
from tilelang.target import Feature

# Source: PTX ISA, "Parallel Synchronization ...: mbarrier", "Contents"
MOST_ARRIVALS = (1 << 20) - 1
MOST_BYTES = (1 << 20) - 1
_SOURCE = "PTX ISA, 'Parallel Synchronization and Communication Instructions: {}'"
_STATE = "mbarrier"
_Key = tuple[object, int]  # the memory and the barrier's number in it


@record(frozen=False)
class Coming:
    """Asynchronous work that ends with an effect on a barrier.

    Attributes:
        land: Does it, and has the effect.
        arrivals: How many it brings.
        bytes: How many it brings.
    """

    land: Callable[[], None]
    arrivals: int = 0
    bytes: int = 0


@record(frozen=False, eq=False)
class MBarrier:
    """One barrier as the simulator keeps it.

    Attributes:
        name: For reports.
        count: Arrivals that complete a phase.
        pending: Those that are missing in the phase under way.
        pending_bytes: Bytes that were announced for it and have not come, less those that came unannounced.
        phase: How many phases are complete.
        gathered: What those know who have arrived in the phase under way.
        known: What those knew who completed the phases before.
        coming: Work that has not landed, in the order in which it began.
    """

    name: str
    count: int
    pending: int
    pending_bytes: int = 0
    phase: int = 0
    gathered: np.ndarray | None = None
    known: np.ndarray | None = None
    coming: list[Coming] = field(default_factory=list)

    def passes(self, parity: int) -> bool:
        """Whether the phase of this parity is complete."""
        return self.phase & 1 != parity

    def arrive(self, count: int, known: np.ndarray) -> None:
        """So many threads arrive, who know that."""
        for _ in range(count):
            if self.pending == 0:
                raise SimulationError(
                    f"mbarrier.arrive: one arrival too many at '{self.name}': {self.progress()}",
                    hint="initialize it with the number of arrivals of a phase, and let nobody arrive before the phase "
                    "that he arrives for",
                )
            self.gathered = _joined(self.gathered, known)
            self.pending -= 1
            self.advance()

    def expect(self, count: int) -> None:
        """So many bytes are announced."""
        self._count_bytes(count)

    def complete(self, count: int, known: np.ndarray) -> None:
        """So many bytes have come, and this is known of them."""
        self.gathered = _joined(self.gathered, known)
        self._count_bytes(-count)
        self.advance()

    def bring(self, count: int, transfer: Transfer) -> None:
        """A transfer that has begun will bring so many bytes."""
        if transfer.landed:
            self.complete(count, transfer.land())
        else:
            self.coming.append(Coming(lambda: self.complete(count, transfer.land()), bytes=count))

    def _count_bytes(self, change: int) -> None:
        self.pending_bytes += change
        if abs(self.pending_bytes) > MOST_BYTES:
            raise SimulationError(
                f"mbarrier: '{self.name}' counts up to {MOST_BYTES} bytes, but there are {self.pending_bytes}",
                hint="announce as many bytes as the copies of the phase bring",
            )

    def advance(self) -> None:
        """Begins the next phase if nothing is missing in this one."""
        if self.pending == 0 and self.pending_bytes == 0:
            assert self.gathered is not None
            self.known = _joined(self.known, self.gathered)
            self.phase, self.pending, self.gathered = self.phase + 1, self.count, None

    def hurry(self) -> None:
        """Work that is under way may land at any time; as much of it does now as completes the phase, if it can."""
        arrivals, count = self.pending, self.pending_bytes
        for number, work in enumerate(self.coming, start=1):
            arrivals, count = arrivals - work.arrivals, count - work.bytes
            if arrivals <= 0 and count == 0:
                landing, self.coming = self.coming[:number], self.coming[number:]
                for work_done in landing:
                    work_done.land()
                return

    def progress(self) -> str:
        """How far the phase under way is."""
        came = self.count - self.pending
        under_way = sum(work.bytes for work in self.coming)
        missing = f", and {self.pending_bytes} bytes have not come" if self.pending_bytes > 0 else ""
        missing = missing or (f", and {-self.pending_bytes} bytes that none announced" if self.pending_bytes else "")
        coming = f" ({under_way} are under way)" if under_way else ""
        return f"in its phase {self.phase} {came} of {self.count} arrivals have come{missing}{coming}"


def _joined(a: np.ndarray | None, b: np.ndarray) -> np.ndarray:
    return b if a is None else np.maximum(a, b)


def _groups(warp: Warp, pointer: Pointer, *values: Any) -> Iterator[tuple[_Key, tuple[int, ...], np.ndarray]]:
    """The active lanes that name one barrier, with the same further operands: barrier, operands, lanes."""
    columns = np.stack([np.broadcast_to(pointer.offset, (LANES,)), *map(integers, values)])
    for row in np.unique(columns[:, warp.active], axis=1).T:
        lanes = warp.active & (columns == row[:, None]).all(axis=0)
        yield (pointer.buffer.storage, int(row[0])), tuple(map(int, row[1:])), lanes


def signaled(warp: Warp, pointer: Pointer, lane: int, what: str) -> MBarrier:
    """The barrier that a lane gives to an engine, to count on it the bytes that come.

    Raises:
        SimulationError: There is none, or no fence made its initialization visible to engines.
    """
    barrier = named(warp, pointer, lane, what)
    warp.need_fence(pointer, np.arange(LANES) == lane, "barriers")
    return barrier


def named(warp: Warp, pointer: Pointer, lane: int, what: str) -> MBarrier:
    """The barrier that a lane names.

    Raises:
        SimulationError: There is none.
    """
    key = pointer.buffer.storage, int(pointer.offset[lane])
    return _found(warp, pointer, key, np.arange(LANES) == lane, what)


def _found(warp: Warp, pointer: Pointer, key: _Key, lanes: np.ndarray, what: str) -> MBarrier:
    """The barrier that lanes name. Reading it shows whether its initialization is ordered before."""
    warp.read(pointer, where=lanes)
    barrier = warp.state(_STATE, dict).get(key)
    if not isinstance(barrier, MBarrier):
        raise SimulationError(
            f"{what}: '{_name(pointer, key)}' is no barrier, or not any more",
            hint="allocate it with T.alloc_barrier, and let nothing else write there",
        )
    return barrier


def _name(pointer: Pointer, key: _Key) -> str:
    return f"{pointer.buffer.name}[{key[1]}]"


def _init(warp: Warp, pointer: Pointer, count: Any) -> None:
    for key, (arrivals,), lanes in _groups(warp, pointer, count):
        if not 1 <= arrivals <= MOST_ARRIVALS:
            raise SimulationError(f"mbarrier.init: {arrivals} arrivals, but a phase counts 1 to {MOST_ARRIVALS}")
        _write(warp, pointer, arrivals, lanes)
        warp.state(_STATE, dict)[key] = MBarrier(_name(pointer, key), arrivals, arrivals)


def _inval(warp: Warp, pointer: Pointer) -> None:
    for key, _, lanes in _groups(warp, pointer):
        _found(warp, pointer, key, lanes, "mbarrier.inval")
        _write(warp, pointer, 0, lanes)
        del warp.state(_STATE, dict)[key]


def _write(warp: Warp, pointer: Pointer, contents: int, lanes: np.ndarray) -> None:
    warp.write(pointer, np.full((LANES, 1), contents, pointer.buffer.dtype.numpy), where=lanes)


def _arrive(warp: Warp, pointer: Pointer) -> None:
    for key, _, lanes in _groups(warp, pointer):
        barrier = _found(warp, pointer, key, lanes, "mbarrier.arrive")
        barrier.arrive(int(lanes.sum()), warp.release(lanes))


def _expect(warp: Warp, pointer: Pointer, count: Any) -> None:
    for key, (each,), lanes in _groups(warp, pointer, count):
        barrier = _found(warp, pointer, key, lanes, "mbarrier.expect_tx")
        for _ in range(int(lanes.sum())):
            barrier.expect(_bytes(each))


def _arrive_expect(warp: Warp, pointer: Pointer, count: Any) -> None:
    for key, (each,), lanes in _groups(warp, pointer, count):
        barrier = _found(warp, pointer, key, lanes, "mbarrier.arrive.expect_tx")
        for lane in np.flatnonzero(lanes):
            barrier.expect(_bytes(each))
            barrier.arrive(1, warp.release(np.arange(LANES) == lane))


def _bytes(count: int) -> int:
    if not 0 <= count <= MOST_BYTES:
        raise SimulationError(f"mbarrier.expect_tx: {count} bytes, but a barrier counts 0 to {MOST_BYTES}")
    return count


def _fence_init(warp: Warp) -> None:
    warp.fence_proxy("barriers")


def _cp_async_arrive(warp: Warp, pointer: Pointer) -> None:
    for key, _, lanes in _groups(warp, pointer):
        barrier = _found(warp, pointer, key, lanes, "cp.async.mbarrier.arrive")
        count, land = int(lanes.sum()), warp.landing(Timeline.CP_ASYNC, lanes)
        if land is None:
            barrier.arrive(count, warp.release(lanes))
        else:
            barrier.coming.append(Coming(_arrival(warp, barrier, lanes, land), arrivals=count))


def _arrival(warp: Warp, barrier: MBarrier, lanes: np.ndarray, land: Callable[[], None]) -> Callable[[], None]:
    def arrive() -> None:
        land()
        barrier.arrive(int(lanes.sum()), warp.release(lanes))

    return arrive


def _parity(value: int, what: str) -> int:
    if value not in (0, 1):
        raise SimulationError(f"{what}: {value} is no parity", hint="write 0 or 1: the phase's number modulo 2")
    return value


def _wait(warp: Warp, pointer: Pointer, parity: Any) -> Iterator[Wait]:
    what = "mbarrier.try_wait"
    for key, (value,), lanes in list(_groups(warp, pointer, parity)):
        barrier, awaited = _found(warp, pointer, key, lanes, what), _parity(value, what)
        if not barrier.passes(awaited):

            def ready(barrier: MBarrier = barrier, awaited: int = awaited) -> bool:
                if not barrier.passes(awaited):
                    barrier.hurry()
                return barrier.passes(awaited)

            yield Wait(f"the phase of parity {awaited} of mbarrier '{barrier.name}'", ready, barrier.progress)
        if barrier.known is not None:
            warp.acquire(barrier.known, lanes)


def _test_wait(warp: Warp, pointer: Pointer, parity: Any) -> np.ndarray:
    what = "mbarrier.test_wait"
    passed = np.zeros(LANES, bool)
    for key, (value,), lanes in _groups(warp, pointer, parity):
        barrier = _found(warp, pointer, key, lanes, what)
        if barrier.passes(_parity(value, what)):
            passed |= lanes
            if barrier.known is not None:
                warp.acquire(barrier.known, lanes)
        else:
            barrier.hurry()  # for who asks again
    return passed


def _helper(name: str, signature: str, body: str, comment: str) -> Helper:
    text = f"// {comment}\n__device__ __forceinline__ {signature} {{\n{body}}}\n"
    return Helper(name, text)


_ADDRESS = '"r"((unsigned)__cvta_generic_to_shared(barrier))'

MBARRIER_INIT = Instruction(
    "mbarrier_init",
    {"cuda": "tl_mbarrier_init({0}, {1})"},
    {
        "cuda": _helper(
            "tl_mbarrier_init",
            "void tl_mbarrier_init(void* barrier, int count)",
            f'    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::{_ADDRESS}, "r"(count) : "memory");\n',
            "Makes a barrier of 8 bytes, whose phases end with this many arrivals.",
        )
    },
    _init,
    needs=Feature.MBARRIER,
    source=_SOURCE.format("mbarrier.init"),
)
"""Makes a barrier; called with its address and the number of arrivals. Others use it after a barrier of the block."""

MBARRIER_INVAL = Instruction(
    "mbarrier_inval",
    {"cuda": "tl_mbarrier_inval({0})"},
    {
        "cuda": _helper(
            "tl_mbarrier_inval",
            "void tl_mbarrier_inval(void* barrier)",
            f'    asm volatile("mbarrier.inval.shared.b64 [%0];" ::{_ADDRESS} : "memory");\n',
            "Ends a barrier, whose memory may be used otherwise from then on.",
        )
    },
    _inval,
    needs=Feature.MBARRIER,
    source=_SOURCE.format("mbarrier.inval"),
)
"""Ends a barrier; called with its address."""

MBARRIER_ARRIVE = Instruction(
    "mbarrier_arrive",
    {"cuda": "tl_mbarrier_arrive({0})"},
    {
        "cuda": _helper(
            "tl_mbarrier_arrive",
            "void tl_mbarrier_arrive(void* barrier)",
            f"""\
    asm volatile("{{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }}" ::{_ADDRESS} : "memory");
""",
            "Counts this thread as arrived, after all that it did before.",
        )
    },
    _arrive,
    effect=Effect.SYNC_SOME,
    needs=Feature.MBARRIER,
    source=_SOURCE.format("mbarrier.arrive"),
)
"""Every executing thread arrives once; called with the barrier's address."""

MBARRIER_WAIT = Instruction(
    "mbarrier_wait",
    {"cuda": "tl_mbarrier_wait({0}, {1})"},
    {
        "cuda": _helper(
            "tl_mbarrier_wait",
            "void tl_mbarrier_wait(void* barrier, unsigned parity)",
            f"""\
    unsigned done;
    do {{
#if __CUDA_ARCH__ >= 900
        asm volatile("{{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }}"
#else
        asm volatile("{{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }}"
#endif
                     : "=r"(done)
                     : {_ADDRESS}, "r"(parity)
                     : "memory");
    }} while (!done);
""",
            "Waits until the phase of this parity is complete.",
        )
    },
    _wait,
    effect=Effect.SYNC_SOME,
    needs=Feature.MBARRIER,
    source=_SOURCE.format("mbarrier.test_wait, mbarrier.try_wait"),
)
"""Waits until the phase of a parity is complete; called with the barrier's address and 0 or 1."""

MBARRIER_TEST_WAIT = Instruction(
    "mbarrier_test_wait",
    {"cuda": "tl_mbarrier_test_wait({0}, {1})"},
    {
        "cuda": _helper(
            "tl_mbarrier_test_wait",
            "bool tl_mbarrier_test_wait(void* barrier, unsigned parity)",
            f"""\
    unsigned done;
    asm volatile("{{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }}"
                 : "=r"(done)
                 : {_ADDRESS}, "r"(parity)
                 : "memory");
    return done != 0;
""",
            "Whether the phase of this parity is complete.",
        )
    },
    _test_wait,
    result=BOOL,
    effect=Effect.SYNC_SOME,
    needs=Feature.MBARRIER,
    source=_SOURCE.format("mbarrier.test_wait, mbarrier.try_wait"),
)
"""Whether the phase of a parity is complete; called as `MBARRIER_WAIT`."""

MBARRIER_CP_ASYNC_ARRIVE = Instruction(
    "mbarrier_cp_async_arrive",
    {"cuda": "tl_mbarrier_cp_async_arrive({0})"},
    {
        "cuda": _helper(
            "tl_mbarrier_cp_async_arrive",
            "void tl_mbarrier_cp_async_arrive(void* barrier)",
            f'    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::{_ADDRESS} : "memory");\n',
            "Counts this thread as arrived as soon as all copies are there that it has begun by cp.async.",
        )
    },
    _cp_async_arrive,
    timeline=Timeline.CP_ASYNC,
    effect=Effect.SYNC_SOME,
    needs=Feature.MBARRIER,
    source=_SOURCE.format("cp.async.mbarrier.arrive"),
)
"""Every executing thread arrives once its copies so far have; called with the barrier's address."""

MBARRIER_EXPECT_TX = Instruction(
    "mbarrier_expect_tx",
    {"cuda": "tl_mbarrier_expect_tx({0}, {1})"},
    {
        "cuda": _helper(
            "tl_mbarrier_expect_tx",
            "void tl_mbarrier_expect_tx(void* barrier, int bytes)",
            f"""\
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::{_ADDRESS}, "r"(bytes) : "memory");
""",
            "Lets the phase wait for so many more bytes of copies.",
        )
    },
    _expect,
    effect=Effect.SYNC_SOME,
    needs=Feature.TMA,
    source=_SOURCE.format("mbarrier.expect_tx"),
)
"""Every executing thread announces bytes of copies to the phase under way; called with the barrier and the bytes."""

MBARRIER_ARRIVE_EXPECT_TX = Instruction(
    "mbarrier_arrive_expect_tx",
    {"cuda": "tl_mbarrier_arrive_expect_tx({0}, {1})"},
    {
        "cuda": _helper(
            "tl_mbarrier_arrive_expect_tx",
            "void tl_mbarrier_arrive_expect_tx(void* barrier, int bytes)",
            f"""\
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::{_ADDRESS}, "r"(bytes) : "memory");
""",
            "Lets the phase wait for so many more bytes of copies, and counts this thread as arrived.",
        )
    },
    _arrive_expect,
    effect=Effect.SYNC_SOME,
    needs=Feature.TMA,
    source=_SOURCE.format("mbarrier.arrive"),
)
"""Every executing thread announces bytes of copies and then arrives; called with the barrier and the bytes."""

FENCE_MBARRIER_INIT = Instruction(
    "fence_mbarrier_init",
    {"cuda": "tl_fence_mbarrier_init()"},
    {
        "cuda": _helper(
            "tl_fence_mbarrier_init",
            "void tl_fence_mbarrier_init()",
            '    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");\n',
            "Makes barriers that this thread has initialized known to the cluster and to engines that count on them.",
        )
    },
    _fence_init,
    effect=Effect.FENCE,
    needs=Feature.TMA,
    source="PTX ISA, 'Parallel Synchronization and Communication Instructions: membar, fence'",
)
"""Makes initialized barriers known beyond the thread, once others are ordered after it; called with nothing."""
