"""The HIP record: ways to do tile operators, and passes from tile level to the program of one thread."""

import pytest
from thread_kernels import buffer, kernel

from tilelang.errors import NoLowering
from tilelang.ir.func import Level
from tilelang.ir.stmt import CallStmt
from tilelang.lowering.by_loop import LOOPS
from tilelang.ops.any_exceeds import AnyExceeds
from tilelang.ops.arg_reduce import ArgReduce
from tilelang.ops.catalogue import TILE_OPS
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.ops.gather_scatter import GatherRows, ScatterRows
from tilelang.ops.gemm_wait import GemmWait
from tilelang.ops.online_softmax import OnlineSoftmax
from tilelang.ops.sort import Sort, TopK
from tilelang.passes.base import PassContext
from tilelang.passes.tile.check_program import check_program
from tilelang.targets.amd.backend import BACKEND, LOWERINGS
from tilelang.targets.nvidia.isa.catalogue import instructions
from tilelang.targets.target import Target


def test_the_record_serves_hip_targets() -> None:
    assert "hip" == BACKEND.kind
    assert ["resolve_warp_size", "drop_optional_calls", "grow_fragments"] == [p.name for p in BACKEND.passes[:3]]


def test_passes_lead_from_tiles_to_threads() -> None:
    assert (Level.TILE, Level.THREAD) == (BACKEND.passes[0].reads, BACKEND.passes[-1].writes)
    for before, after in zip(BACKEND.passes, BACKEND.passes[1:], strict=False):
        assert before.writes is after.reads


def test_every_operator_that_is_no_program_of_others_has_its_lowerings() -> None:
    of_others = {AnyExceeds, ClusterSum, GemmWait}  # passes for other machines make them
    expanded = {ArgReduce, GatherRows, OnlineSoftmax, ScatterRows, Sort, TopK}  # before lowerings are chosen
    assert set(TILE_OPS) - expanded - of_others == set(LOWERINGS)
    for rows in LOWERINGS.values():
        names = [row.name for row in rows]
        assert len(names) == len(set(names))
    assert all(LOWERINGS[kind][-1] is row for kind, row in LOOPS.items())


FOREIGN = {
    name: record for name, record in instructions().items()
    if record.texts and "hip" not in record.texts and not record.optional
}  # fmt: skip


@pytest.mark.parametrize("arch", ["gfx942", "gfx1200"])
def test_every_instruction_of_another_vendor_is_refused_when_a_program_is_checked(arch: str) -> None:
    assert {"bar_sync", "bar_arrive", "cp_async_commit"} <= FOREIGN.keys()
    for name, record in FOREIGN.items():
        func = kernel("test", [buffer("A", (4,), "int32")], [CallStmt(record, ())])
        with pytest.raises(NoLowering, match=f"{name.removeprefix('tl_')}: {arch} cannot do that; it needs one of sm_") as caught:
            check_program(func, PassContext(target=Target("hip", arch)))
        assert (caught.value.hint or "").startswith("compile with target={'kind': 'cuda', 'arch': 'sm_")
