"""Barriers in shared memory that count arrivals: any thread arrives, any thread waits, and phases follow each other.

Gives the instructions `MBARRIER_INIT`, `MBARRIER_ARRIVE`, `MBARRIER_WAIT`, `MBARRIER_TEST_WAIT`, `MBARRIER_INVAL`,
`MBARRIER_CP_ASYNC_ARRIVE`, `MBARRIER_CP_ASYNC_ARRIVE_NOINC`, `MBARRIER_EXPECT_TX`, `MBARRIER_ARRIVE_EXPECT_TX` and
`FENCE_MBARRIER_INIT`.

Invariant: a phase is complete when as many arrivals as the barrier was initialized with have come, and all expected
bytes, which may complete before they are expected; the next phase begins then. A wait for parity p returns once the
phase of parity p is complete; for parity 1 on a fresh barrier, whose current phase is 0, it returns at once. Arriving
releases what the thread did before, and waiting acquires what the arriving threads released.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from tilelang.dtypes import BOOL, INT32
from tilelang.errors import DataRace, ProgramError, SimulationError
from tilelang.ir.expr import const
from tilelang.isa.function import Function, Parameter, ParameterKind
from tilelang.isa.instruction import AsyncUnit, Effect, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Pointer, Wait, Warp
from tilelang.targets.gpu.isa.lanes import integers, spread
from tilelang.targets.nvidia.isa.async_units import CP_ASYNC
from tilelang.targets.nvidia.isa.mbarrier_state import MAX_ARRIVALS, MAX_TX_BYTES, MBarrier, PendingWork
from tilelang.targets.nvidia.isa.ptx_statement import Argument, ptx_statement, register, shared_address
from tilelang.targets.nvidia.machines import Feature

_INSTEAD = "let T.Pipelined wait for copies, and T.sync_threads() for threads"
_SOURCE = "PTX ISA, 'Parallel Synchronization and Communication Instructions: {}'"
_STATE = "mbarrier"
_Key = tuple[object, int]  # the memory and the barrier's number in it


def _groups(warp: Warp, pointer: Pointer, *values: Any) -> Iterator[tuple[_Key, tuple[int, ...], np.ndarray]]:
    """The active lanes that name one barrier, with the same further operands: barrier, operands, lanes."""
    columns = [spread(warp, pointer.offset), *(integers(warp, value) for value in values)]
    found = sorted(set(zip(*(column[warp.active].tolist() for column in columns), strict=True)))
    for number, *operands in found:
        here = len(found) == 1 or (np.transpose(columns) == (number, *operands)).all(axis=1)
        yield (pointer.buffer.storage, number), tuple(operands), warp.active & here


def signaled(warp: Warp, pointer: Pointer, lane: int, what: str) -> MBarrier:
    """The barrier that a lane passes to TMA, which completes its bytes there.

    Raises:
        SimulationError: There is none, or no fence made its initialization visible to the async proxy.
    """
    barrier = _found(warp, pointer, (pointer.buffer.storage, int(pointer.offset[lane])), warp.lane == lane, what)
    warp.need_fence(pointer, warp.lane == lane, "barriers")
    return barrier


def named(warp: Warp, pointer: Pointer, what: str) -> Iterator[tuple[MBarrier, np.ndarray]]:
    """The barriers that active lanes name, each with these lanes.

    Raises:
        SimulationError: One of them is none.
    """
    for key, _, lanes in _groups(warp, pointer):
        yield _found(warp, pointer, key, lanes, what), lanes


def _found(
    warp: Warp, pointer: Pointer, key: _Key, lanes: np.ndarray, what: str, *, read_only: bool = False
) -> MBarrier:
    """The barrier that lanes name. Reading it shows whether its initialization is ordered before."""
    warp.read(pointer, where=lanes)
    barrier = warp.state(_STATE, dict, read_only=read_only).get(key)
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
        if not 1 <= arrivals <= MAX_ARRIVALS:
            raise SimulationError(f"mbarrier.init: {arrivals} arrivals, but a phase counts 1 to {MAX_ARRIVALS}")
        _write(warp, pointer, arrivals, lanes)
        warp.state(_STATE, dict)[key] = MBarrier(_name(pointer, key), arrivals, arrivals)


def _inval(warp: Warp, pointer: Pointer) -> None:
    for key, _, lanes in _groups(warp, pointer):
        _found(warp, pointer, key, lanes, "mbarrier.inval")
        _write(warp, pointer, 0, lanes)
        del warp.state(_STATE, dict)[key]


def _write(warp: Warp, pointer: Pointer, contents: int, lanes: np.ndarray) -> None:
    warp.write(pointer, np.full((warp.size, 1), contents, pointer.buffer.dtype.numpy), where=lanes)


def _arrive(warp: Warp, pointer: Pointer) -> None:
    for key, _, lanes in _groups(warp, pointer):
        barrier = _found(warp, pointer, key, lanes, "mbarrier.arrive")
        check_arrival(warp, barrier, lanes)
        barrier.arrive(int(lanes.sum()), warp.release(lanes))


def _expect(warp: Warp, pointer: Pointer, count: Any) -> None:
    for key, (each,), lanes in _groups(warp, pointer, count):
        barrier = _found(warp, pointer, key, lanes, "mbarrier.expect_tx")
        for _ in range(int(lanes.sum())):
            barrier.expect_tx(_bytes(each))


def _arrive_expect(warp: Warp, pointer: Pointer, count: Any) -> None:
    for key, (each,), lanes in _groups(warp, pointer, count):
        barrier = _found(warp, pointer, key, lanes, "mbarrier.arrive.expect_tx")
        check_arrival(warp, barrier, lanes)
        for lane in np.flatnonzero(lanes):
            barrier.expect_tx(_bytes(each))
            barrier.arrive(1, warp.release(warp.lane == lane))


def _bytes(count: int) -> int:
    if not 0 <= count <= MAX_TX_BYTES:
        raise SimulationError(f"mbarrier.expect_tx: {count} bytes, but a barrier counts 0 to {MAX_TX_BYTES}")
    return count


def _fence_init(warp: Warp) -> None:
    warp.fence_proxy("barriers")


def _cp_async_arrive(warp: Warp, pointer: Pointer) -> None:
    _arrive_after_copies(warp, pointer, increment=True)


def _cp_async_arrive_noinc(warp: Warp, pointer: Pointer) -> None:
    _arrive_after_copies(warp, pointer, increment=False)


def _arrive_after_copies(warp: Warp, pointer: Pointer, *, increment: bool) -> None:
    """Arrives when the copies complete; with `increment`, the phase then expects one more arrival for that."""
    for key, _, lanes in _groups(warp, pointer):
        barrier = _found(warp, pointer, key, lanes, "cp.async.mbarrier.arrive")
        if increment:
            barrier.pending += int(lanes.sum())
        count, complete = int(lanes.sum()), warp.completion(CP_ASYNC, lanes)
        if complete is None:
            barrier.arrive(count, warp.release(lanes))
        else:
            barrier.pending_work.append(PendingWork(_arrival(warp, barrier, lanes, complete), arrivals=count))


def _arrival(warp: Warp, barrier: MBarrier, lanes: np.ndarray, complete: Callable[[], None]) -> Callable[[], None]:
    def arrive() -> None:
        complete()
        barrier.arrive(int(lanes.sum()), warp.release(lanes))

    return arrive


def _parity(value: int, what: str) -> int:
    if value not in (0, 1):
        raise SimulationError(f"{what}: {value} is no parity", hint="write 0 or 1: the phase's number modulo 2")
    return value


def _check_phase(warp: Warp, barrier: MBarrier, parity: int, lanes: np.ndarray) -> None:
    """Reports a wait that the phase two before the awaited one may also satisfy, since it has the same parity."""
    previous = barrier.clock_before(parity)
    if previous is not None and not warp.has_observed(previous, lanes):
        raise DataRace(
            f"mbarrier.try_wait: the wait for parity {parity} at '{barrier.name}' may begin before the phase of parity "
            f"{1 - parity} is complete, and then returns for an earlier phase of parity {parity}",
            hint="wait for every phase before, in the same thread or in one that it synchronizes with",
        )


def check_arrival(warp: Warp, barrier: MBarrier, lanes: np.ndarray) -> None:
    """Refuses an arrival that may come before the previous phase completes and would be counted in that phase."""
    if barrier.completed_clock is not None and not warp.has_observed(barrier.completed_clock, lanes):
        raise DataRace(
            f"mbarrier.arrive: the arrival at '{barrier.name}' in its phase {barrier.phase} may come before phase "
            f"{barrier.phase - 1} is complete, and is then counted there",
            hint="count all threads that arrive in a phase, and let them arrive again only after a wait for it",
        )


def _wait(warp: Warp, pointer: Pointer, parity: Any) -> Iterator[Wait]:
    what = "mbarrier.try_wait"
    for key, (value,), lanes in list(_groups(warp, pointer, parity)):
        barrier, awaited = _found(warp, pointer, key, lanes, what), _parity(value, what)
        _check_phase(warp, barrier, awaited, lanes)
        wait = barrier.wait(awaited, warp.moment(lanes))
        if not barrier.passes(awaited):
            ready = partial(barrier.passes_by_now, awaited)
            yield Wait(f"the phase of parity {awaited} of mbarrier '{barrier.name}'", ready, barrier.progress)
        wait.end(warp.moment(lanes))
        if barrier.completed_clock is not None:
            warp.acquire(barrier.completed_clock, lanes)


def _test_wait(warp: Warp, pointer: Pointer, parity: Any) -> np.ndarray:
    what = "mbarrier.test_wait"
    passed = np.zeros(warp.size, bool)
    for key, (value,), lanes in _groups(warp, pointer, parity):
        barrier = _found(warp, pointer, key, lanes, what, read_only=True)
        if barrier.passes(_parity(value, what)):
            passed |= lanes
            if barrier.completed_clock is not None:
                warp.acquire(barrier.completed_clock, lanes)
        else:
            barrier.complete_early()  # for the next test
    return passed


_BARRIER = shared_address("barrier")


def _record(
    name: str,
    statement: str,
    simulate: Callable[..., Any],
    comment: str,
    *more: Argument,
    section: str,
    async_unit: AsyncUnit | None = None,
    effect: Effect = Effect.SYNC_SOME,
    needs: Feature = Feature.MBARRIER,
) -> Instruction:
    """An instruction that is called with a barrier's address and then with `more`."""
    return ptx_statement(
        name,
        statement,
        (_BARRIER, *more),
        simulate,
        comment,
        async_unit=async_unit,
        effect=effect,
        needs=needs,
        instead=_INSTEAD,
        source=_SOURCE.format(section),
    )


MBARRIER_INIT = _record(
    "mbarrier_init",
    "mbarrier.init.shared.b64 [%0], %1;",
    _init,
    "Makes a barrier of 8 bytes, whose phases end with this many arrivals.",
    register("int", "count"),
    section="mbarrier.init",
    effect=Effect.NONE,
)
"""Makes a barrier; called with its address and the number of arrivals. Others use it after a barrier of the block."""

MBARRIER_INVAL = _record(
    "mbarrier_inval",
    "mbarrier.inval.shared.b64 [%0];",
    _inval,
    "Ends a barrier, whose memory may be used otherwise from then on.",
    section="mbarrier.inval",
    effect=Effect.NONE,
)
"""Ends a barrier; called with its address."""

MBARRIER_ARRIVE = _record(
    "mbarrier_arrive",
    "{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }",
    _arrive,
    "Counts this thread as arrived, after all that it did before.",
    section="mbarrier.arrive",
)
"""Every executing thread arrives once; called with the barrier's address."""

MBARRIER_CP_ASYNC_ARRIVE_NOINC = _record(
    "mbarrier_cp_async_arrive_noinc",
    "cp.async.mbarrier.arrive.noinc.shared.b64 [%0];",
    _cp_async_arrive_noinc,
    "Counts this thread as arrived as soon as all copies are there that it has begun by cp.async.",
    section="cp.async.mbarrier.arrive",
    async_unit=CP_ASYNC,
)
"""Every executing thread arrives once its copies so far have; called with the barrier's address."""

MBARRIER_CP_ASYNC_ARRIVE = _record(
    "mbarrier_cp_async_arrive",
    "cp.async.mbarrier.arrive.shared.b64 [%0];",
    _cp_async_arrive,
    "Arrives at the barrier once this thread's copies by cp.async are complete, as an additional arrival.",
    section="cp.async.mbarrier.arrive",
    async_unit=CP_ASYNC,
)
"""The phase waits for each executing thread's copies so far beside its arrivals; called with the barrier's address."""

MBARRIER_EXPECT_TX = _record(
    "mbarrier_expect_tx",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;",
    _expect,
    "Adds bytes of copies to the transaction count that the phase expects.",
    register("int", "bytes"),
    section="mbarrier.expect_tx",
    needs=Feature.TMA,
)
"""Every executing thread adds to the bytes that the current phase expects; called with the barrier and the bytes."""

MBARRIER_ARRIVE_EXPECT_TX = _record(
    "mbarrier_arrive_expect_tx",
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;",
    _arrive_expect,
    "Adds bytes of copies to the transaction count that the phase expects, and arrives at the barrier.",
    register("int", "bytes"),
    section="mbarrier.arrive",
    needs=Feature.TMA,
)
"""Every executing thread announces bytes of copies and then arrives; called with the barrier and the bytes."""

FENCE_MBARRIER_INIT = ptx_statement(
    "fence_mbarrier_init",
    "fence.mbarrier_init.release.cluster;",
    (),
    _fence_init,
    "Makes the initialization of barriers by this thread visible to the cluster and the async proxy.",
    effect=Effect.FENCE,
    needs=Feature.TMA,
    source=_SOURCE.format("membar, fence"),
)
"""Makes initialized barriers known beyond the thread, once others are ordered after it; called with nothing."""


def _wait_asm(operation: str) -> str:
    """The beginning of the assembly that tests whether a phase is complete; `_WAIT_OPERANDS` follows it."""
    ptx = f"{{ .reg .pred p; mbarrier.{operation}.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }}"
    return f'asm volatile("{ptx}"'


_WAIT_OPERANDS = f': "=r"(done) : {_BARRIER.operand}, "r"(parity) : "memory");'

MBARRIER_WAIT = Instruction(
    "mbarrier_wait",
    {"cuda": "tl_mbarrier_wait({0}, {1})"},
    {
        "cuda": Helper(
            "tl_mbarrier_wait",
            f"""\
// Waits until the phase of this parity is complete.
__device__ __forceinline__ void tl_mbarrier_wait(void* barrier, unsigned parity) {{
    unsigned done;
    do {{
#if __CUDA_ARCH__ >= 900
        {_wait_asm("try_wait")}
#else
        {_wait_asm("test_wait")}
#endif
                     {_WAIT_OPERANDS}
    }} while (!done);
}}
""",
        )
    },
    _wait,
    effect=Effect.SYNC_SOME,
    needs=Feature.MBARRIER,
    instead=_INSTEAD,
    source=_SOURCE.format("mbarrier.test_wait, mbarrier.try_wait"),
)
"""Waits until the phase of a parity is complete; called with the barrier's address and 0 or 1."""

MBARRIER_TEST_WAIT = Instruction(
    "mbarrier_test_wait",
    {"cuda": "tl_mbarrier_test_wait({0}, {1})"},
    {
        "cuda": Helper(
            "tl_mbarrier_test_wait",
            f"""\
// Whether the phase of this parity is complete.
__device__ __forceinline__ bool tl_mbarrier_test_wait(void* barrier, unsigned parity) {{
    unsigned done;
    {_wait_asm("test_wait")}
                 {_WAIT_OPERANDS}
    return done != 0;
}}
""",
        )
    },
    _test_wait,
    result=BOOL,
    effect=Effect.SYNC_SOME,
    needs=Feature.MBARRIER,
    instead=_INSTEAD,
    source=_SOURCE.format("mbarrier.test_wait, mbarrier.try_wait"),
)
"""Whether the phase of a parity is complete; called as `MBARRIER_WAIT`."""


def _check_bytes(what: str, count: int) -> None:
    if not 0 <= count <= MAX_TX_BYTES:
        raise ProgramError(f"{what}: {count} bytes, but a barrier counts 0 to {MAX_TX_BYTES}")


def _check_parity(what: str, parity: int) -> None:
    if parity not in (0, 1):
        raise ProgramError(f"{what}: {parity} is no parity", hint="write 0 or 1, or an expression such as k // 2 % 2")


_BARRIER_OPERAND = Parameter("mbarrier", ParameterKind.BARRIER)
_DOCUMENTED = Parameter("mbarrier", ParameterKind.BARRIER, "`bar[i]`.")
_PARITY = Parameter("parity", ParameterKind.VALUE, check=_check_parity)

FUNCTIONS = (
    Function(
        "mbarrier_expect_tx",
        MBARRIER_EXPECT_TX,
        """Every thread that gets here adds `tx` bytes to those of the phase, and does not arrive. Needs sm_90.

        `T.tma_copy` announces its bytes itself.
        """,
        (_DOCUMENTED, Parameter("tx", ParameterKind.VALUE, "The number of bytes.", check=_check_bytes)),
        raises=("ProgramError: The number is below 0, or more than a barrier counts.",),
    ),
    Function(
        "mbarrier_arrive_expect_tx",
        MBARRIER_ARRIVE_EXPECT_TX,
        "Every thread that gets here announces `tx` bytes, and then arrives. As `T.mbarrier_expect_tx` otherwise.",
        (_BARRIER_OPERAND, Parameter("tx", ParameterKind.VALUE, check=_check_bytes)),
    ),
    Function(
        "barrier_wait",
        MBARRIER_WAIT,
        """Waits until the phase of this parity is complete.

        The first phase has parity 0, the next one 1, then 0 again. Waiting for parity 1 at a fresh barrier goes through
        at once, which is how producers begin.
        """,
        (
            _DOCUMENTED,
            Parameter("parity", ParameterKind.VALUE, "0 or 1, such as `k // stages % 2`.", check=_check_parity),
        ),
        raises=("ProgramError: It is another constant.",),
        aliases=("mbarrier_wait_parity",),
    ),
    Function(
        "barrier_test_wait",
        MBARRIER_TEST_WAIT,
        "Whether the phase of this parity is complete; does not wait. As `T.barrier_wait` otherwise.",
        (_BARRIER_OPERAND, _PARITY),
        value_name="mbarrier",
    ),
    Function(
        "cp_async_barrier_noinc",
        MBARRIER_CP_ASYNC_ARRIVE_NOINC,
        "Every thread that gets here arrives as soon as all copies are there that it has begun with `T.ptx_cp_async`.",
        (_BARRIER_OPERAND,),
    ),
    Function(
        "ptx_cp_async_barrier",
        MBARRIER_CP_ASYNC_ARRIVE,
        """The phase also waits for all copies that the threads that get here have begun with `T.ptx_cp_async`.

        Unlike with `T.cp_async_barrier_noinc`, that is no arrival: the barrier counts others as it did.
        """,
        (_BARRIER_OPERAND,),
    ),
    Function("ptx_arrive_barrier", MBARRIER_ARRIVE, "The same as `T.barrier_arrive`.", (_BARRIER_OPERAND,)),
    Function(
        "ptx_arrive_barrier_expect_tx",
        MBARRIER_ARRIVE_EXPECT_TX,
        "The same as `T.mbarrier_arrive_expect_tx`.",
        (_BARRIER_OPERAND, Parameter("byte_count", ParameterKind.VALUE, check=_check_bytes)),
    ),
    Function(
        "ptx_wait_barrier",
        MBARRIER_WAIT,
        "Waits until the first phase of the barrier is complete. As `T.barrier_wait` for parity 0.",
        (_BARRIER_OPERAND,),
        operands=("mbarrier", const(0, INT32)),
    ),
    Function(
        "ptx_fence_barrier_init",
        FENCE_MBARRIER_INIT,
        "Lets the copy engine and other blocks of the cluster see which barriers this thread has initialized.",
    ),
)


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    yield from (MBARRIER_INIT, MBARRIER_INVAL, MBARRIER_ARRIVE, MBARRIER_WAIT, MBARRIER_TEST_WAIT)
    yield from (MBARRIER_CP_ASYNC_ARRIVE_NOINC, MBARRIER_CP_ASYNC_ARRIVE)
    yield from (MBARRIER_EXPECT_TX, MBARRIER_ARRIVE_EXPECT_TX, FENCE_MBARRIER_INIT)
