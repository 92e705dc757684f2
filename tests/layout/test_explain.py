from warps import blocked

from tilelang.errors import Loc
from tilelang.layout.constraints import FixedLayout, Reason, SharedLayout
from tilelang.layout.explain import (
    describe_conversion,
    describe_fragment,
    describe_shared_tile,
    describe_staging,
    layout_conflict,
    shared_layout_conflict,
)
from tilelang.layout.shared_memory import row_major
from tilelang.layout.solve import Conflict
from tilelang.layout.thread_values import replicated

GEMM = Reason("T.gemm accumulates in it", Loc("kernel.py", 12))


def test_a_fragment_names_who_fixed_it() -> None:
    line = describe_fragment("C", blocked((64, 64), 128, 4), GEMM)
    assert "C: 128 threads hold 32 values each; fixed by T.gemm accumulates in it (line 12)" == line
    assert "128 threads hold 1 value each, 128 copies" in describe_fragment("m", replicated((1,), 128), Reason("user"))


def test_a_shared_tile_names_who_asked() -> None:
    assert "A: layout in shared memory Layout((8, 8) -> (8, 8)); user" == describe_shared_tile("A", row_major((8, 8)), Reason("user"))


def test_a_conversion_names_both_sides_and_its_cost() -> None:
    request = FixedLayout("P", replicated((64,), 128), Reason("T.annotate_layout", Loc("kernel.py", 5)))
    line = describe_conversion("P", Conflict(request, GEMM, request.layout), 256)
    assert "P: goes through 256 bytes of shared memory for T.annotate_layout (line 5)" in line
    assert "its layout is fixed by T.gemm accumulates in it (line 12)" in line
    assert describe_conversion("P", Conflict(request, None, None), 256).endswith("(line 5)")


def test_a_detour_says_what_it_saves() -> None:
    line = describe_staging("x", 4.0, 16384, GEMM)
    assert line.startswith("x: goes through 16384 bytes of shared memory, since its layout, fixed by T.gemm accumulates")
    assert line.endswith("would move 4 times the bytes of global memory")


def test_errors_name_who_stands_in_the_way() -> None:
    request = FixedLayout("P", replicated((64,), 128), Reason("T.annotate_layout", Loc("kernel.py", 5)))
    error = layout_conflict(Conflict(request, GEMM, request.layout))
    needed = "T.annotate_layout (line 5) needs another layout than T.gemm accumulates in it (line 12)"
    assert f"'a loop': {needed}" in str(error)
    assert "none was found" in str(layout_conflict(Conflict(request, None, None)))
    asked = SharedLayout("A", row_major((8, 8)), Reason("T.copy brings it", Loc("kernel.py", 3)))
    text = str(shared_layout_conflict(asked, GEMM))
    assert "T.copy brings it (line 3), and needs another layout in shared memory than T.gemm accumulates" in text
