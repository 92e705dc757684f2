"""TMA: copies of boxes of tensors and of contiguous bytes between global and shared memory, issued by one thread.

Gives `tma_load`, `tma_store`, `tma_reduce`, `bulk_load`, `bulk_store`, `TMA_STORE_COMMIT`, `tma_store_wait`,
`TMA_PREFETCH_MAP`. Every executing thread starts a copy of its own. Invariant: a load's bytes are there
once the phase of its barrier is complete, on which they are counted, those out of bounds too, which are zero; what a
store reads may change after a wait for its group by the thread that started it. The copy engine accesses memory through
the async proxy (`isa.fence`).

A map is a parameter of the kernel, `const __grid_constant__ tl_tensor_map`; coordinates are in elements, the innermost
first, and may lie out of bounds. Boxes begin at multiples of 16 bytes of a row, and those that are stored not before
the tensor: elsewhere an H200 traps (an "illegal instruction", reported where the copy is waited for).

Source: PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy: Bulk copy" and "Tensor copy"; CUDA C++
Programming Guide, "Tensor Memory Access", for the beginnings of stores; those of rows were seen on an H200.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from tilelang.errors import NoLowering, ProgramError
from tilelang.isa.function import Function, Parameter, ParameterKind
from tilelang.isa.instruction import Effect, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import TensorMapView, Warp
from tilelang.targets.nvidia.isa import tma_meaning
from tilelang.targets.nvidia.isa.async_units import TMA_LOAD, TMA_STORE
from tilelang.targets.nvidia.isa.ptx_statement import Argument, global_address, ptx_statement, register, shared_address
from tilelang.targets.nvidia.isa.tensor_box import IMAGE_RANK, MAX_RANK
from tilelang.targets.nvidia.isa.tma_meaning import REDUCTIONS
from tilelang.targets.nvidia.machines import Feature

_INSTEAD = "write T.copy in loops of T.Pipelined, which waits for it"
_SOURCE = "PTX ISA, 'Data Movement and Conversion Instructions: {}'"
TENSOR_MAP = Helper(
    "tl_tensor_map",
    """\
// A tensor map: the shape, strides, box and swizzle of a tensor; encoded by the host.
struct alignas(64) tl_tensor_map { unsigned long long words[16]; };
""",
)


_MAP = Argument("const tl_tensor_map* map", '"l"(map)', "&{}", TENSOR_MAP)
_POLICY = register("unsigned long long", "policy")
_BYTES = register("unsigned", "bytes")


def _check(rank: int) -> None:
    if not 1 <= rank <= MAX_RANK:
        raise NoLowering(f"cp.async.bulk.tensor: boxes have 1 to {MAX_RANK} dimensions, not {rank}")


def _coordinates(rank: int) -> list[Argument]:
    return [register("int", f"c{i}") for i in range(rank)]


def _operands(first: int, count: int) -> str:
    return ", ".join(f"%{first + i}" for i in range(count))


@cache
def tma_load(rank: int, *, pixels: bool = False, multicast: bool = False, hint: bool = False) -> Instruction:
    """The copy of a box of a tensor to shared memory.

    It is called with the destination, the map, the barrier that counts the bytes, and as many coordinates as the map
    has dimensions; then, if the map is one of `pixels`, with how far behind a base pixel the one lies that is read, per
    spatial dimension, innermost first (uint16); then with the mask of the blocks of the cluster that receive the box at
    the same place, and count it on their own barriers, if it is `multicast`; then with a policy of `l2_policy`, if
    there is a `hint`.
    """
    _check(rank)
    if pixels and rank != IMAGE_RANK:
        raise NoLowering(f"cp.async.bulk.tensor: maps of pixels have {IMAGE_RANK} dimensions here, not {rank}")
    offsets = rank - 2 if pixels else 0
    behind = 3 + rank + offsets
    ptx = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global" + ".im2col" * pixels
    ptx += ".mbarrier::complete_tx::bytes"
    ptx += ".multicast::cluster" * multicast + ".L2::cache_hint" * hint
    ptx += f" [%0], [%1, {{{_operands(3, rank)}}}], [%2]"
    ptx += f", {{{_operands(3 + rank, offsets)}}}" * pixels + f", %{behind}" * multicast
    ptx += f", %{behind + multicast}" * hint
    arguments = [shared_address("dst"), _MAP, shared_address("barrier"), *_coordinates(rank)]
    arguments += [register("unsigned short", f"offset{i}") for i in range(offsets)]
    arguments += [register("unsigned short", "blocks")] * multicast + [_POLICY] * hint
    return ptx_statement(
        f"tma_load_{rank}d" + "_im2col" * pixels + "_multicast" * multicast + "_hint" * hint,
        f"{ptx};",
        arguments,
        tma_meaning.tensor_load(rank, multicast, pixels),
        "Copies a box of a tensor to shared memory; the barrier counts its bytes.",
        async_unit=TMA_LOAD,
        needs=Feature.TMA | Feature.CLUSTER if multicast else Feature.TMA,
        instead=_INSTEAD,
        source=_SOURCE.format("cp.async.bulk.tensor"),
    )


@cache
def tma_store(rank: int, *, hint: bool = False) -> Instruction:
    """The copy of a box from shared memory to a tensor; what lies out of bounds is left out.

    It is called with the map, the source, as many coordinates as the map has dimensions, and a policy if there is a
    `hint`. It belongs to the thread's group that `TMA_STORE_COMMIT` closes.
    """
    return _tensor_to_global(rank, None, hint)


@cache
def tma_reduce(rank: int, op: str, *, hint: bool = False) -> Instruction:
    """The reduction of a box in shared memory into a tensor, atomic per element; called as `tma_store`.

    Raises:
        NoLowering: There is no such operation; see `tma_meaning.reduces`.
    """
    if op not in REDUCTIONS:
        raise NoLowering(f"cp.reduce.async.bulk.tensor: reduces by {', '.join(REDUCTIONS)}, not by {op!r}")
    return _tensor_to_global(rank, op, hint)


def _tensor_to_global(rank: int, op: str | None, hint: bool) -> Instruction:
    _check(rank)
    instruction = "cp.async.bulk.tensor" if op is None else "cp.reduce.async.bulk.tensor"
    ptx = f"{instruction}.{rank}d.global.shared::cta" + ("" if op is None else f".{op}.tile") + ".bulk_group"
    ptx += ".L2::cache_hint" * hint + f" [%0, {{{_operands(2, rank)}}}], [%1]" + f", %{2 + rank}" * hint
    return ptx_statement(
        ("tma_store_" if op is None else f"tma_reduce_{op}_") + f"{rank}d" + "_hint" * hint,
        f"{ptx};",
        [_MAP, shared_address("src", const=True), *_coordinates(rank), *[_POLICY] * hint],
        tma_meaning.tensor_store(rank, op),
        "Copies a box from shared memory to a tensor." if op is None else "Folds a box into a tensor.",
        async_unit=TMA_STORE,
        written_map=0,
        needs=Feature.TMA,
        instead=_INSTEAD,
        source=_SOURCE.format(instruction),
    )


@cache
def bulk_load(*, hint: bool = False) -> Instruction:
    """The copy of a run of bytes to shared memory.

    It is called with the destination, the source in global memory, the number of bytes and the barrier that counts
    them; then with a policy if there is a `hint`. Both addresses and the number are multiples of 16.
    """
    ptx = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes" + ".L2::cache_hint" * hint
    arguments = [shared_address("dst"), global_address("src", const=True), _BYTES, shared_address("barrier")]
    arguments += [_POLICY] * hint
    return ptx_statement(
        "bulk_load" + "_hint" * hint,
        f"{ptx} [%0], [%1], %2, [%3]" + ", %4" * hint + ";",
        arguments,
        tma_meaning.bulk_load,
        "Copies a run of bytes to shared memory; the barrier counts them.",
        async_unit=TMA_LOAD,
        needs=Feature.TMA,
        instead=_INSTEAD,
        source=_SOURCE.format("cp.async.bulk"),
    )


@cache
def bulk_store(*, hint: bool = False) -> Instruction:
    """The copy of a run of bytes from shared memory.

    It is called with the destination in global memory, the source and the number of bytes; then with a policy if there
    is a `hint`. Both addresses and the number are multiples of 16. Groups are as of `tma_store`.
    """
    ptx = "cp.async.bulk.global.shared::cta.bulk_group" + ".L2::cache_hint" * hint
    return ptx_statement(
        "bulk_store" + "_hint" * hint,
        f"{ptx} [%0], [%1], %2" + ", %3" * hint + ";",
        [global_address("dst"), shared_address("src", const=True), _BYTES, *[_POLICY] * hint],
        tma_meaning.bulk_store,
        "Copies a run of bytes from shared memory.",
        async_unit=TMA_STORE,
        needs=Feature.TMA,
        instead=_INSTEAD,
        source=_SOURCE.format("cp.async.bulk"),
    )


TMA_STORE_COMMIT = ptx_statement(
    "tma_store_commit",
    "cp.async.bulk.commit_group;",
    (),
    tma_meaning.commit,
    "Commits this thread's bulk stores since the last commit as one group.",
    async_unit=TMA_STORE,
    effect=Effect.COMMIT,
    needs=Feature.TMA,
    instead=_INSTEAD,
    source=_SOURCE.format("cp.async.bulk.commit_group"),
)
"""Commits the bulk stores that the thread has issued since the last commit as one group; takes no arguments."""


@cache
def tma_store_wait(pending: int, *, read: bool = True) -> Instruction:
    """The wait until at most the `pending` newest groups of stores of the thread are pending; takes no arguments.

    With `read` it waits until the others have been read, so that the thread may let their shared memory be written
    again; otherwise until they have been written as well.
    """
    if pending < 0:
        raise NoLowering(f"cp.async.bulk.wait_group: {pending} groups")
    done = "been read" if read else "ended"
    return ptx_statement(
        "tma_store_wait" + "_read" * read + f"_{pending}",
        f"cp.async.bulk.wait_group{'.read' * read} {pending};",
        (),
        tma_meaning.wait(pending, read),
        f"Waits until all but the newest {pending} groups of this thread's stores have {done}.",
        async_unit=TMA_STORE,
        effect=Effect.WAIT,
        pending=pending,
        needs=Feature.TMA,
        instead=_INSTEAD,
        source=_SOURCE.format("cp.async.bulk.wait_group"),
    )


def _nothing(warp: Warp, view: TensorMapView) -> None:
    """Fetching a map early changes no results."""


TMA_PREFETCH_MAP = ptx_statement(
    "tma_prefetch_map",
    "prefetch.tensormap [%0];",
    (_MAP,),
    _nothing,
    "Fetches a map into the cache of the copy engine.",
    needs=Feature.TMA,
    instead=_INSTEAD,
    source=_SOURCE.format("prefetch, prefetchu"),
)
"""Fetches a map before it is needed; called with it."""


def _check_groups(what: str, count: int) -> None:
    if count < 0:
        raise ProgramError(f"{what}: {count} groups cannot be left pending", hint="write 0, or a small number")


FUNCTIONS = (
    Function(
        "tma_store_arrive",
        TMA_STORE_COMMIT,
        """Closes a group of the stores that the thread has started since the last one.

        `T.tma_copy` has closed its own already, so that this one is empty: `T.tma_store_wait` counts it, too.
        """,
    ),
    Function(
        "tma_store_wait",
        lambda count, read: tma_store_wait(count, read=read),
        """
        Waits until all stores of `T.tma_copy` but the newest ones have been read, so that their tiles may be written.

        It is for the thread that started them to wait: the first one of the block, or of the group around. The compiler
        keeps the others from writing the tile before.
        """,
        (
            Parameter(
                "count",
                ParameterKind.NUMBER,
                "How many of the newest groups of stores may be pending.",
                default=0,
                check=_check_groups,
            ),
            Parameter(
                "read",
                ParameterKind.FLAG,
                "False waits until they have been written to global memory as well.",
                default=True,
            ),
        ),
        raises=("ProgramError: The count is no plain number, or negative.",),
    ),
)


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    for hint in (False, True):
        for rank in range(1, MAX_RANK + 1):
            yield from (tma_load(rank, multicast=multicast, hint=hint) for multicast in (False, True))
            if rank == IMAGE_RANK:
                yield tma_load(rank, pixels=True, hint=hint)
            yield tma_store(rank, hint=hint)
            yield from (tma_reduce(rank, op, hint=hint) for op in REDUCTIONS)
        yield from (bulk_load(hint=hint), bulk_store(hint=hint))
    yield from (TMA_STORE_COMMIT, tma_store_wait(0), tma_store_wait(0, read=False), TMA_PREFETCH_MAP)
