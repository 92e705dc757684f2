"""Which lowering each operator gets, and the tiles that are put between."""

import dataclasses

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.dtypes import SCALARS
from tilelang.errors import NoLowering, ResourceError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import const
from tilelang.ir.stmt import Alloc, Launch, TileOp
from tilelang.ir.visit import Rewriter, walk
from tilelang.layout.xor_swizzle import swizzled
from tilelang.lowering import by_loop
from tilelang.lowering.lowering import PlainLowering, Refusal
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.passes.tile.choose_lowerings import choose_lowerings
from tilelang.targets.cpu.backend import LOWERINGS as CPU_LOWERINGS
from tilelang.targets.gpu.lowerings import gemm_fma
from tilelang.targets.nvidia.backend import BACKEND, LOWERINGS
from tilelang.targets.nvidia.lowerings import gemm_mma, gemm_wgmma
from tilelang.targets.target import Target

TABLE = {**LOWERINGS, Gemm: (gemm_mma.LOWERING, gemm_fma.LOWERING), Copy: (by_loop.COPY,)}
POLICY = T.GemmWarpPolicy


def chosen(func, arch="sm_80", table=TABLE):
    return choose_lowerings(table).run(func, PassContext(target=Target("cuda", arch)))


def ops(func, kind=TileOp):
    return [s for s in walk(func.body) if isinstance(s, kind)]


def tiles(func):
    return {s.buffer.name: s.buffer for s in walk(func.body) if isinstance(s, Alloc)}


def product(
    dtype="float16", accum="float32", *, a="shared", b="shared", c="fragment", other=None, threads=128, **options
):
    """A product whose operands lie in the given scopes."""
    alloc = {"shared": T.alloc_shared, "fragment": T.alloc_fragment}

    @T.prim_func
    def main(A: T.Tensor((64, 32), dtype), B: T.Tensor((32, 64), other or dtype), C: T.Tensor((64, 64), accum)):
        with T.Kernel(1, threads=threads):
            x = alloc[a]((64, 32), dtype)
            y = alloc[b]((32, 64), other or dtype)
            z = alloc[c]((64, 64), accum)
            T.copy(A, x)
            T.copy(B, y)
            T.gemm(x, y, z, **options)
            T.copy(z, C)

    return main


@pytest.mark.parametrize(
    ("dtype", "accum", "arch", "name"),
    [
        ("float16", "float32", "sm_75", "gemm.mma"),
        ("bfloat16", "float32", "sm_75", "gemm.fma"),
        ("bfloat16", "bfloat16", "sm_80", "gemm.mma"),
        ("float32", "float32", "sm_90a", "gemm.fma"),
        ("tfloat32", "float32", "sm_80", "gemm.mma"),
        ("int8", "int32", "sm_75", "gemm.mma"),
        ("float8_e4m3fn", "float32", "sm_80", "gemm.fma"),
        ("float8_e4m3fn", "float32", "sm_89", "gemm.mma"),
    ],
)
def test_the_first_row_that_does_not_refuse_is_taken(dtype, accum, arch, name):
    func = chosen(product(dtype, accum), arch)
    assert [name] == [op.choice for op in ops(func, Gemm)]
    assert {"copy.loop"} == {op.choice for op in ops(func, Copy)}


def test_threads_that_are_no_whole_warps_multiply_what_matrix_instructions_cannot():
    assert ["gemm.fma"] == [op.choice for op in ops(chosen(product("float32", threads=48)), Gemm)]


@pytest.mark.parametrize("policy", [POLICY.Square, POLICY.FullRow, POLICY.FullCol])
def test_matrix_instructions_need_whole_warps(policy):
    with pytest.raises(ResourceError, match="48 threads are no whole number of warps") as caught:
        chosen(product(threads=48, policy=policy))
    assert "threads=64" in caught.value.hint
    assert caught.value.loc is not None


def test_sums_in_shared_memory_go_through_a_fragment():
    func = chosen(product(c="shared"))
    names = [(type(op).__name__, [r.buffer.name for r in op.writes()]) for op in ops(func)][2:5]
    assert [("Copy", ["z_fragment"]), ("Gemm", ["z_fragment"]), ("Copy", ["z"])] == names
    assert tiles(func)["z_fragment"].scope is Scope.FRAGMENT


def test_sums_that_are_cleared_are_not_fetched():
    func = chosen(product(c="shared", clear_accum=True))
    assert 1 == sum("z_fragment" in [r.buffer.name for r in op.writes()] for op in ops(func))


def test_sums_are_fetched_unless_a_condition_clears_them():
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            c = T.alloc_shared((64, 64), "float32")
            T.copy(A, a)
            for k in T.serial(3):
                T.gemm(a, a, c, transpose_B=True, clear_accum=k == 0)
            T.copy(c, C)

    func = chosen(main)
    text = str(func)
    assert "if not k == 0:" in text or "if k != 0:" in text


@pytest.mark.parametrize("where", ["a", "b"])
@pytest.mark.parametrize("scope", ["shared", "fragment"])
def test_a_wide_operand_is_rounded_into_a_fragment(where, scope):
    dtypes = ("float32", "float16") if where == "a" else ("float16", "float32")
    func = chosen(product(dtypes[0], "float32", other=dtypes[1], **{where: scope}))
    (gemm,) = ops(func, Gemm)
    assert "gemm.mma" == gemm.choice
    moved = gemm.a if where == "a" else gemm.b
    assert ("float16", Scope.FRAGMENT) == (moved.dtype, moved.buffer.scope)


def test_products_between_tiles_that_the_program_does_not_know_are_waited_for():
    def waits(**options):
        made = ops(chosen(product(wg_wait=-1, **options), "sm_90a"), Gemm)
        return [op.wait for op in made]

    assert [-1] == waits()
    assert [0] == waits(c="shared")
    assert [0] == waits(dtype="float32", a="fragment", other="bfloat16")


@pytest.mark.parametrize("table", [TABLE, {**TABLE, Gemm: (*TABLE[Gemm], by_loop.GEMM)}])
@pytest.mark.parametrize("where", ["a", "b"])
def test_single_threads_find_operands_in_shared_memory(where, table):
    func = chosen(product("float32", "float32", **{where: "fragment"}), table=table)
    (gemm,) = ops(func, Gemm)
    assert "gemm.fma" == gemm.choice  # also where loops would take them from registers
    assert [Scope.SHARED, Scope.SHARED] == [gemm.a.buffer.scope, gemm.b.buffer.scope]


def test_a_part_of_a_fragment_is_copied_out():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((64, 64), "float16")
            s = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(A, s)
            T.gemm(a[:, 16:48], s[16:48, :], c)
            T.copy(c, C)

    (gemm,) = ops(chosen(main), Gemm)
    assert "a_fragment" == gemm.a.buffer.name
    assert "s" == gemm.b.buffer.name


@pytest.mark.parametrize(
    ("columns", "size", "out", "staged"),
    [
        (256, 128, "float16", True),
        (256, 128, "float32", False),  # two float32 of four lanes fill a sector
        (250, 128, "float16", False),  # rows begin at odd places
        (256, 32, "float16", False),  # too little to pay
    ],
)
def test_narrow_results_leave_in_rows(columns, size, out, staged):
    @T.prim_func
    def main(A: T.Tensor((256, 32), "float16"), C: T.Tensor((256, columns), out)):
        with T.Kernel(T.ceildiv(columns, size), T.ceildiv(256, size), threads=128) as (bx, by):
            a = T.alloc_shared((size, 32), "float16")
            c = T.alloc_fragment((size, size), "float32")
            T.copy(A[by * size, 0], a)
            T.gemm(a, a, c, transpose_B=True, clear_accum=True)
            T.copy(c, C[by * size, bx * size])

    found = tiles(chosen(main))
    assert staged == ("c_shared" in found)
    if staged:
        assert ("float16", Scope.SHARED) == (found["c_shared"].dtype, found["c_shared"].scope)


def test_results_of_groups_leave_in_rows_as_long_as_there_is_memory_for_all_at_once():
    @T.prim_func
    def main(
        A: T.Tensor((512, 256), "float16"), B: T.Tensor((512, 256), "float16"), C: T.Tensor((256, 256), "float16")
    ):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            a = T.alloc_shared((128, 128), "float16")
            b = T.alloc_shared((128, 128), "float16")
            c = T.alloc_fragment((128, 128), "float16")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[k * 128, by * 128], a)
                T.copy(B[k * 128, bx * 128], b)
                T.gemm(a, b, c, transpose_A=True)
            T.copy(c, C[by * 128, bx * 128])

    # two warpgroups that take turns each have a tile on its way out, beside three versions of 64 KiB
    options = CompileOptions.from_user({"tl.persistent": True, "tl.ping_pong": True, "tl.staged": False})
    names = [step.name for step in BACKEND.passes]
    passes = BACKEND.passes[: names.index("choose_lowerings") + 1]
    made = run_passes(main, passes, PassContext(options, Target("cuda", "sm_90a")))
    assert ["c_shared"] == [s.buffer.name for s in walk(made.body) if isinstance(s, Alloc) and "c_" in s.buffer.name]


def test_all_refusals_are_told():
    class Never(PlainLowering):
        def __init__(self, name):
            self.name = name

        def accepts(self, op, context):
            return Refusal(f"it is {self.name}")

    with pytest.raises(NoLowering, match="cuda:sm_80 has no lowering for it") as caught:
        chosen(product(), table={**TABLE, Gemm: (Never("one"), Never("two"))})
    assert ["one: it is one", "two: it is two"] == [note.text for note in caught.value.notes]


def test_what_is_not_in_the_table_is_refused_with_its_line():
    with pytest.raises(NoLowering, match="T.copy: cuda:sm_80 has no lowering for it") as caught:
        chosen(product(), table={})
    assert __file__ == caught.value.loc.file


def test_every_operator_names_its_lowering_on_a_cpu():
    func = choose_lowerings(CPU_LOWERINGS).run(product(c="shared"), PassContext())
    assert ["copy.loop", "copy.loop", "gemm.micro_kernel", "copy.loop"] == [op.choice for op in ops(func)]


def test_statements_keep_their_places():
    func = chosen(product(c="shared"))
    launch = next(s for s in walk(func.body) if isinstance(s, Launch))
    assert all(s.loc.file for s in walk(launch.body))


def twice(split):
    """Two products that read one tile: along K, then along N by two warpgroups that split its columns."""

    @T.prim_func
    def main(A: T.Tensor((64, 192), "float16"), B: T.Tensor((64, 192), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256 if split else 128):
            x = T.alloc_shared((64, 192), "float16")
            y = T.alloc_shared((64, 192), "float16")
            w = T.alloc_shared((64, 64), "float16")
            first = T.alloc_fragment((64, 64), "float32")
            second = T.alloc_fragment((64, 192), "float32")
            T.copy(A, x)
            T.copy(B, y)
            T.gemm(x, y, first, transpose_B=True, clear_accum=True)
            T.copy(first, w)
            T.gemm(w, y, second, clear_accum=True)
            T.copy(second[:, 0:64], C)

    return main


@pytest.mark.parametrize(("split", "second"), [(False, "gemm.wgmma"), (True, "gemm.mma")])
def test_a_product_that_needs_another_layout_of_a_tile_is_done_otherwise(split, second):
    table = {**TABLE, Gemm: (gemm_wgmma.LOWERING, gemm_mma.LOWERING)}
    products = ops(chosen(twice(split), "sm_90a", table), Gemm)
    assert ["gemm.wgmma", second] == [op.choice for op in products]


@pytest.mark.parametrize(("width", "name"), [(64, "gemm.wgmma"), (128, "gemm.mma")])
def test_an_annotated_layout_decides_who_multiplies(width, name):
    @T.prim_func
    def main(
        A: T.Tensor((64, width), "float16"), B: T.Tensor((64, width), "float16"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((64, width), "float16")
            y = T.alloc_shared((64, width), "float16")
            z = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({x: swizzled((64, width), 16, 128)})  # permutes within whole rows
            T.copy(A, x)
            T.copy(B, y)
            T.gemm(x, y, z, transpose_B=True, clear_accum=True)
            T.copy(z, C)

    table = {**TABLE, Gemm: (gemm_wgmma.LOWERING, gemm_mma.LOWERING)}
    assert [name] == [op.choice for op in ops(chosen(main, "sm_90a", table), Gemm)]


def test_bytes_that_a_barrier_counts_come_by_the_copy_engine_or_not_at_all():
    @T.prim_func
    def main(A: T.Tensor((64, 33), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            T.copy(A[0, 0], a)
            T.copy(a, C)

    barrier = Buffer("full", (const(1, SCALARS["int32"]),), SCALARS["uint64"], Scope.BARRIER)

    class Counted(Rewriter):
        def stmt(self, node):
            if isinstance(node, Copy) and node.src.buffer.name == "A":
                return dataclasses.replace(node, barrier=whole(barrier))
            return self.rebuild_stmt(node)

    counted = dataclasses.replace(main, body=Counted().visit(main.body))
    with pytest.raises(NoLowering, match="T.copy: sm_90a has no lowering for it|T.copy: cuda"):
        chosen(counted, "sm_90a", LOWERINGS)


def test_rows_that_warpgroups_multiply_beyond_an_operand_are_zeros():
    rows = 17

    @T.prim_func
    def main(A: T.Tensor((rows, 128), "float16"), B: T.Tensor((128, 48), "float16"), C: T.Tensor((rows, 48), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_fragment((rows, 64), "float16"), T.alloc_shared((64, 48), "float16")
            c = T.alloc_fragment((rows, 48), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(rows, 48):
                c[i, j] = T.max(c[i, j], 1)  # where it saves a test, what lies beyond is computed, too
            T.copy(c, C)

    kernel = tilelang.compile(main, target="sm_90a", execution_backend="simulator")
    result = np.zeros((rows, 48), np.float32)
    kernel(np.ones((rows, 128), np.float16), np.ones((128, 48), np.float16), result)
    assert "gemm.wgmma" in str(kernel.show_ir("choose_lowerings"))
    assert (result == 128).all()
