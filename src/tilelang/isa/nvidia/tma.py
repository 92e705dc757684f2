"""The copy engine: boxes of tensors and runs of bytes between global and shared memory, started by single threads.

Gives `tma_load`, `tma_store`, `tma_reduce`, `bulk_load`, `bulk_store`, `TMA_STORE_COMMIT`, `tma_store_wait`,
`TMA_PREFETCH_MAP`. Every executing thread starts a copy of its own. Invariant: a load's bytes are there
once the phase of its barrier is complete, on which they are counted, those out of bounds too, which are zero; what a
store reads may change after a wait for its group by the thread that started it. Engines see memory through the
asynchronous proxy (`isa.nvidia.fence`).

A map is a parameter of the kernel, `const __grid_constant__ tl_tensor_map`; coordinates are in elements, the innermost
first, and may lie out of bounds.

Source: PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy: Bulk copy" and "Tensor copy".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tilelang.errors import NoLowering
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var
from tilelang.ir.stmt import CallStmt, Launch
from tilelang.ir.visit import walk
from tilelang.isa.instruction import Effect, Instruction, Timeline
from tilelang.isa.intrinsic import Helper
from tilelang.isa.machine import TensorMapView, Warp
from tilelang.isa.nvidia import tma_meaning
from tilelang.isa.nvidia.tensor_box import MAX_RANK
from tilelang.isa.nvidia.tma_meaning import REDUCTIONS
from tilelang.target import Feature

_SOURCE = "PTX ISA, 'Data Movement and Conversion Instructions: {}'"
_SHARED = '"r"((unsigned)__cvta_generic_to_shared({}))'

TENSOR_MAP = Helper(
    "tl_tensor_map",
    """\
// What the copy engine knows of a tensor; the host writes it.
struct alignas(64) tl_tensor_map { unsigned long long words[16]; };
""",
)


def stored_by_maps(launch: Launch) -> frozenset[Buffer]:
    """The tensors that the engine writes in a launch; calls need not name them among their writes."""
    tensors = {each.var: each.tensor for each in launch.plan.tensor_maps}
    return frozenset(
        tensors[arg]
        for call in walk(launch.body)
        if isinstance(call, CallStmt) and isinstance(call.routine, Instruction)
        and call.routine.timeline is Timeline.TMA_STORE
        for arg in call.args
        if isinstance(arg, Var) and arg in tensors
    )  # fmt: skip


def _helper(name: str, comment: str, parameters: list[str], ptx: str, operands: list[str]) -> Helper:
    """A function around one instruction, whose operands are numbered in `ptx`."""
    text = f"""\
// {comment}
__device__ __forceinline__ void {name}({", ".join(parameters)}) {{
    asm volatile("{ptx};"
                 :
                 : {", ".join(operands)}
                 : "memory");
}}
"""
    return Helper(name, text, needs=(TENSOR_MAP,))


def _places(count: int, *maps: int) -> str:
    """The arguments of a call; those that are maps by their address."""
    return ", ".join(f"&{{{i}}}" if i in maps else f"{{{i}}}" for i in range(count))


def _check(rank: int) -> None:
    if not 1 <= rank <= MAX_RANK:
        raise NoLowering(f"cp.async.bulk.tensor: boxes have 1 to {MAX_RANK} dimensions, not {rank}")


def _coordinates(rank: int, first: int) -> str:
    return ", ".join(f"%{first + i}" for i in range(rank))


@cache
def tma_load(rank: int, *, multicast: bool = False, hint: bool = False) -> Instruction:
    """The copy of a box of a tensor to shared memory.

    It is called with the destination, the map, the barrier that counts the bytes, and as many coordinates as the map
    has dimensions; then with the mask of the blocks of the cluster that receive the box at the same place, and count it
    on their own barriers, if it is `multicast`; then with a policy of `l2_policy`, if there is a `hint`.
    """
    _check(rank)
    name = f"tma_load_{rank}d" + "_multicast" * multicast + "_hint" * hint
    ptx = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes"
    ptx += ".multicast::cluster" * multicast + ".L2::cache_hint" * hint
    ptx += f" [%0], [%1, {{{_coordinates(rank, 3)}}}], [%2]" + "".join(
        f", %{3 + rank + i}" for i in range(multicast + hint)
    )
    parameters = ["void* dst", "const tl_tensor_map* map", "void* barrier", *(f"int c{i}" for i in range(rank))]
    parameters += ["unsigned short blocks"] * multicast + ["unsigned long long policy"] * hint
    operands = [_SHARED.format("dst"), '"l"(map)', _SHARED.format("barrier"), *(f'"r"(c{i})' for i in range(rank))]
    operands += ['"h"(blocks)'] * multicast + ['"l"(policy)'] * hint
    comment = "Copies a box of a tensor to shared memory; the barrier counts its bytes."
    return Instruction(
        name,
        {"cuda": f"tl_{name}({_places(len(parameters), 1)})"},
        {"cuda": _helper(f"tl_{name}", comment, parameters, ptx, operands)},
        tma_meaning.tensor_load(rank, multicast),
        timeline=Timeline.TMA_LOAD,
        needs=Feature.TMA | Feature.CLUSTER if multicast else Feature.TMA,
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
    """The fold of a box in shared memory into a tensor, element by element and indivisibly; called as `tma_store`.

    Raises:
        NoLowering: There is no such operation; `tma_meaning.reduces` says for which dtypes there is.
    """
    if op not in REDUCTIONS:
        raise NoLowering(f"cp.reduce.async.bulk.tensor: folds by {', '.join(REDUCTIONS)}, not by {op!r}")
    return _tensor_to_global(rank, op, hint)


def _tensor_to_global(rank: int, op: str | None, hint: bool) -> Instruction:
    _check(rank)
    name = ("tma_store_" if op is None else f"tma_reduce_{op}_") + f"{rank}d" + "_hint" * hint
    instruction = "cp.async.bulk.tensor" if op is None else "cp.reduce.async.bulk.tensor"
    ptx = f"{instruction}.{rank}d.global.shared::cta" + ("" if op is None else f".{op}.tile") + ".bulk_group"
    ptx += ".L2::cache_hint" * hint + f" [%0, {{{_coordinates(rank, 2)}}}], [%1]" + f", %{2 + rank}" * hint
    parameters = ["const tl_tensor_map* map", "const void* src", *(f"int c{i}" for i in range(rank))]
    operands = ['"l"(map)', _SHARED.format("src"), *(f'"r"(c{i})' for i in range(rank))]
    parameters += ["unsigned long long policy"] * hint
    operands += ['"l"(policy)'] * hint
    comment = "Copies a box from shared memory to a tensor." if op is None else "Folds a box into a tensor."
    return Instruction(
        name,
        {"cuda": f"tl_{name}({_places(len(parameters), 0)})"},
        {"cuda": _helper(f"tl_{name}", comment, parameters, ptx, operands)},
        tma_meaning.tensor_store(rank, op),
        timeline=Timeline.TMA_STORE,
        needs=Feature.TMA,
        source=_SOURCE.format("cp.async.bulk.tensor" if op is None else "cp.reduce.async.bulk.tensor"),
    )


@cache
def bulk_load(*, hint: bool = False) -> Instruction:
    """The copy of a run of bytes to shared memory.

    It is called with the destination, the source in global memory, the number of bytes and the barrier that counts
    them; then with a policy if there is a `hint`. Both addresses and the number are multiples of 16.
    """
    name = "bulk_load" + "_hint" * hint
    ptx = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes" + ".L2::cache_hint" * hint
    ptx += " [%0], [%1], %2, [%3]" + ", %4" * hint
    parameters = ["void* dst", "const void* src", "unsigned bytes", "void* barrier"]
    operands = [_SHARED.format("dst"), '"l"(src)', '"r"(bytes)', _SHARED.format("barrier")]
    return _bulk(name, ptx, parameters, operands, hint, tma_meaning.bulk_load, Timeline.TMA_LOAD)


@cache
def bulk_store(*, hint: bool = False) -> Instruction:
    """The copy of a run of bytes from shared memory.

    It is called with the destination in global memory, the source and the number of bytes; then with a policy if there
    is a `hint`. Both addresses and the number are multiples of 16. Groups are as of `tma_store`.
    """
    name = "bulk_store" + "_hint" * hint
    ptx = "cp.async.bulk.global.shared::cta.bulk_group" + ".L2::cache_hint" * hint
    ptx += " [%0], [%1], %2" + ", %3" * hint
    parameters = ["void* dst", "const void* src", "unsigned bytes"]
    operands = ['"l"(dst)', _SHARED.format("src"), '"r"(bytes)']
    return _bulk(name, ptx, parameters, operands, hint, tma_meaning.bulk_store, Timeline.TMA_STORE)


def _bulk(
    name: str,
    ptx: str,
    parameters: list[str],
    operands: list[str],
    hint: bool,
    simulate: Callable[..., None],
    timeline: Timeline,
) -> Instruction:
    parameters = parameters + ["unsigned long long policy"] * hint
    operands = operands + ['"l"(policy)'] * hint
    comment = "Copies a run of bytes " + ("to" if timeline is Timeline.TMA_LOAD else "from") + " shared memory."
    return Instruction(
        name,
        {"cuda": f"tl_{name}({_places(len(parameters))})"},
        {"cuda": _helper(f"tl_{name}", comment, parameters, ptx, operands)},
        simulate,
        timeline=timeline,
        needs=Feature.TMA,
        source=_SOURCE.format("cp.async.bulk"),
    )


TMA_STORE_COMMIT = Instruction(
    "tma_store_commit",
    {"cuda": "tl_tma_store_commit()"},
    {
        "cuda": Helper(
            "tl_tma_store_commit",
            """\
__device__ __forceinline__ void tl_tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
""",
        )
    },
    tma_meaning.commit,
    timeline=Timeline.TMA_STORE,
    effect=Effect.COMMIT,
    needs=Feature.TMA,
    source=_SOURCE.format("cp.async.bulk.commit_group"),
)
"""Closes the group of all stores that the thread has started since the last commit; called with nothing."""


@cache
def tma_store_wait(pending: int, *, read: bool = True) -> Instruction:
    """The wait until at most so many of the thread's newest groups of stores are under way; called with nothing.

    With `read` it waits until the others have been read, so that the thread may let their shared memory be written
    again; otherwise until they have been written as well.
    """
    if pending < 0:
        raise NoLowering(f"cp.async.bulk.wait_group: {pending} groups")
    function = "tl_tma_store_wait" + "_read" * read
    done = "been read" if read else "ended"
    text = f"""\
// Waits until all but the newest N groups of this thread's stores have {done}.
template <int N> __device__ __forceinline__ void {function}() {{
    asm volatile("cp.async.bulk.wait_group{".read" * read} %0;" ::"n"(N) : "memory");
}}
"""
    return Instruction(
        "tma_store_wait" + "_read" * read + f"_{pending}",
        {"cuda": f"{function}<{pending}>()"},
        {"cuda": Helper(function, text)},
        tma_meaning.wait(pending, read),
        timeline=Timeline.TMA_STORE,
        effect=Effect.WAIT,
        needs=Feature.TMA,
        source=_SOURCE.format("cp.async.bulk.wait_group"),
    )


def _nothing(warp: Warp, view: TensorMapView) -> None:
    """Fetching a map early changes no results."""


TMA_PREFETCH_MAP = Instruction(
    "tma_prefetch_map",
    {"cuda": "tl_tma_prefetch_map(&{0})"},
    {
        "cuda": Helper(
            "tl_tma_prefetch_map",
            """\
// Fetches a map into the cache of the copy engine.
__device__ __forceinline__ void tl_tma_prefetch_map(const tl_tensor_map* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
""",
            needs=(TENSOR_MAP,),
        )
    },
    _nothing,
    needs=Feature.TMA,
    source=_SOURCE.format("prefetch, prefetchu"),
)
"""Fetches a map before it is needed; called with it."""
