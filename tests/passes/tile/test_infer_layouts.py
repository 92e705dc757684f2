"""Every layout is checked by going through all iterations, and programs are run by all threads in step."""

from collections.abc import Iterable

import numpy as np
import pytest
from distributed_tiles import assert_same, conversions, distribute, fragments, ints, launches, nests, notes
from warps import MACHINE, blocked

import tilelang.language as T
from tilelang.analysis.sampled_accesses import tile_access
from tilelang.analysis.tile_uses import tile_uses
from tilelang.arith.domain import Domain
from tilelang.errors import CompilerBug, LayoutConflict
from tilelang.ir.buffer import Scope
from tilelang.ir.builder import Builder
from tilelang.ir.plan import Plan
from tilelang.layout.constraints import Constraint, FixedLayout, Reason, SharedLayout
from tilelang.layout.thread_values import Fragment, digit, fragment
from tilelang.layout.xor_swizzle import swizzled
from tilelang.lowering.lowering import ACCEPTED, LoweringContext
from tilelang.ops.gemm import Gemm
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.nvidia.lowerings.gemm_mma import GemmMma
from tilelang.targets.target import Target
from tilelang.transforms.shared_layouts import cost, ideal

MMA = {Gemm: (GemmMma(),)}


def accumulator(m: int, n: int, warps: int) -> Fragment:
    value = [digit(2, 0, 1), digit(2, 8, 0), digit(n // 8, 0, 8), digit(m // 16 // warps, 16 * warps, 0)]
    return fragment((m, n), [digit(4, 0, 2), digit(8, 1, 0), digit(warps, 16, 0)], value)


class FakeGemm:
    """Asks for the layouts of 16 x 8 accumulators in everything that a product touches; `torn` for another in one, too."""

    name = "gemm.fake"

    def __init__(self, *, torn: bool = False, modes: Iterable[int] = ()) -> None:
        self._torn, self._modes = torn, iter(modes)

    def accepts(self, op: Gemm, context: LoweringContext) -> Plan:
        return ACCEPTED

    def constrain(self, op: Gemm, plan: Plan, context: LoweringContext) -> Iterable[Constraint]:
        m, n = op.c.static_extent or ()
        yield FixedLayout(op.c.buffer, accumulator(m, n, context.threads // 32), Reason("T.gemm accumulates in it", op.loc))
        if self._torn:
            yield FixedLayout(op.c.buffer, blocked((m, n), context.threads, 2), Reason("T.gemm multiplies it", op.loc))
        if op.a.buffer.scope.value == "local.fragment":
            shape = op.a.static_extent or ()
            wanted = accumulator(*shape, context.threads // 32)
            yield FixedLayout(op.a.buffer, wanted, Reason("T.gemm multiplies it", op.loc))
        shape = op.b.static_extent or ()
        mode = next(self._modes, 0)
        reason = Reason("T.gemm loads it", op.loc)
        yield SharedLayout(op.b.buffer, swizzled(shape, 16, mode or 64), reason, required=mode > 0)

    def lower(self, op: Gemm, plan: Plan, context: LoweringContext, build: Builder) -> None:
        raise AssertionError("only asked for layouts")


def vector_of(layout: Fragment | None) -> int:
    assert layout is not None
    first = layout.value[0]
    return first.size if first.stride[-1] == 1 else 1


@pytest.mark.parametrize(("dtype", "width"), [(T.float32, 4), (T.float16, 8), (T.int8, 16)])
def test_elementwise_programs_use_16_bytes_everywhere(dtype, width):
    @T.prim_func
    def f(A: T.Tensor((512, 512), dtype), B: T.Tensor((512, 512), dtype)):
        with T.Kernel(8, 8, threads=128) as (bx, by):
            x = T.alloc_fragment((64, 64), dtype)
            T.copy(A[by * 64, bx * 64], x)
            for i, j in T.Parallel(64, 64):
                x[i, j] = x[i, j] + x[i, j]
            T.copy(x, B[by * 64, bx * 64])

    result = distribute(f)
    assert [width] * 3 == [vector_of(nest.layout) for nest in nests(result)]
    assert [] == conversions(result)


def test_narrow_and_wide_tensors_meet_halfway():
    @T.prim_func
    def f(A: T.Tensor((64, 64), T.float16), B: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=128) as _:
            for i, j in T.Parallel(64, 64):
                B[i, j] = A[i, j]

    (nest,) = nests(distribute(f))
    assert 4 == vector_of(nest.layout)


@pytest.mark.parametrize("n", [64, 200, 333])
@pytest.mark.parametrize("threads", [32, 96, 128])
def test_rows_are_folded_across_all_threads(n, threads):
    @T.prim_func
    def f(A: T.Tensor((4, n), T.float32), B: T.Tensor((4, n), T.float32)):
        with T.Kernel(4, threads=threads) as bx:
            x = T.alloc_fragment((n,), T.float32)
            high = T.alloc_fragment((1,), T.float32)
            T.copy(A[bx, :], x)
            T.reduce_max(x, high, dim=0)
            for j in T.Parallel(n):
                x[j] = x[j] - high[0]
            T.copy(x, B[bx, :])

    result = assert_same(f, ints(4, n), ints(4, n))
    assert threads == fragments(result)["high"].replication
    assert [] == conversions(result)


@pytest.mark.parametrize("threads", [64, 96, 128])
def test_rows_and_columns_are_folded_at_once(threads):
    @T.prim_func
    def f(A: T.Tensor((16, 200), T.float16), B: T.Tensor((16, 200), T.float32)):
        with T.Kernel(2, threads=threads) as bx:
            x = T.alloc_fragment((8, 200), T.float32)
            row = T.alloc_fragment((8,), T.float32)
            column = T.alloc_fragment((200,), T.float32)
            T.copy(A[bx * 8, 0], x)
            T.reduce_max(x, row, dim=1)
            T.reduce_sum(x, column, dim=0)
            for i, j in T.Parallel(8, 200):
                x[i, j] = x[i, j] * row[i] + column[j]
            T.copy(x, B[bx * 8, 0])

    result = assert_same(f, ints(16, 200, dtype=np.float16), ints(16, 200))
    assert [] == conversions(result)


def test_attention_needs_no_conversion():
    rows, columns, depth = 64, 64, 64

    @T.prim_func
    def f(
        Q: T.Tensor((128, depth), T.float16),
        K: T.Tensor((128, depth), T.float16),
        V: T.Tensor((128, depth), T.float16),
        Out: T.Tensor((128, depth), T.float16),
    ):
        with T.Kernel(2, threads=128) as bx:
            q = T.alloc_shared((rows, depth), T.float16)
            k = T.alloc_shared((columns, depth), T.float16)
            v = T.alloc_shared((columns, depth), T.float16)
            s = T.alloc_fragment((rows, columns), T.float32)
            p = T.alloc_fragment((rows, columns), T.float16)
            o = T.alloc_fragment((rows, depth), T.float32)
            high = T.alloc_fragment((rows,), T.float32)
            before = T.alloc_fragment((rows,), T.float32)
            scale = T.alloc_fragment((rows,), T.float32)
            total = T.alloc_fragment((rows,), T.float32)
            all_of = T.alloc_fragment((rows,), T.float32)
            T.copy(Q[bx * rows, 0], q)
            T.clear(o)
            T.clear(all_of)
            T.fill(high, -T.infinity(T.float32))
            for n in range(2):
                T.copy(K[n * columns, 0], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(high, before)
                T.reduce_max(s, high, dim=1, clear=False)
                for i in T.Parallel(rows):
                    scale[i] = T.exp2(before[i] - high[i])
                for i, j in T.Parallel(rows, columns):
                    s[i, j] = T.exp2(s[i, j] - high[i])
                T.reduce_sum(s, total, dim=1)
                for i in T.Parallel(rows):
                    all_of[i] = all_of[i] * scale[i] + total[i]
                T.copy(s, p)
                for i, j in T.Parallel(rows, depth):
                    o[i, j] *= scale[i]
                T.copy(V[n * columns, 0], v)
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(rows, depth):
                o[i, j] /= all_of[i]
            T.copy(o, Out[bx * rows, 0])

    result = distribute(f, MMA)
    assert [] == conversions(result)
    found = fragments(result)
    assert {4} == {found[name].replication for name in ("high", "before", "scale", "total", "all_of")}
    assert found["p"].same_owners(found["s"])
    assert {"q", "k", "v"} == {buffer.name for buffer, _ in launches(result)[0].plan.shared_layouts}
    assert any(
        note.startswith("s: 128 threads hold 32 values each; fixed by T.gemm accumulates") for note in notes(result)
    )


def test_uses_that_disagree_go_through_shared_memory():
    @T.prim_func
    def f(A: T.Tensor((32, 32), T.float32), B: T.Tensor((32, 32), T.float32), C: T.Tensor((32, 16), T.float32)):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_fragment((32, 32), T.float32)
            y = T.alloc_fragment((32, 32), T.float32)
            v = T.alloc_fragment((32,), T.float32)
            T.copy(A, x)
            for i, j in T.Parallel(32, 32):
                y[j, i] = x[i, j] * 2
            T.copy(y, B)
            T.reduce_sum(x, v, dim=1)
            for i, j in T.Parallel(32, 32):
                y[i, j] += v[j] + v[i]
            for i, j in T.Parallel(32, 16):
                C[i, j] = y[i, j] + y[i, j + 16] + y[i, 2 * j]

    result = assert_same(f, ints(32, 32), ints(32, 32), ints(32, 16))
    found = conversions(result)
    assert found
    assert all("bytes of shared memory for T.Parallel (line " in note for note in found)


def test_parts_of_fragments_and_serial_dimensions():
    @T.prim_func
    def f(A: T.Tensor((64, 8), T.float32), B: T.Tensor((64, 8), T.float32), C: T.Tensor((32, 8), T.float32)):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_fragment((64, 8), T.float32)
            for i in T.Parallel(64):
                for j in T.serial(8):
                    x[i, j] = A[i, j] + j
            for i in T.Parallel(64):
                for j in T.serial(4):
                    B[i, j * 2] = x[i, 2 * j]
                    B[i, j * 2 + 1] = x[i, 2 * j + 1]
            for i, j in T.Parallel(32, 8):
                C[i, j] = x[i + 32, j]

    assert_same(f, ints(64, 8), ints(64, 8), ints(32, 8))


def test_rows_that_are_mixed_lie_in_one_thread():
    """A column of a tile is read for each row of another: no thread needs what another one holds."""

    @T.prim_func
    def f(A: T.Tensor((4, 4), T.float32), X: T.Tensor((4, 512), T.float32), Y: T.Tensor((4, 512), T.float32)):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_fragment((4, 4), T.float32)
            x = T.alloc_fragment((4, 512), T.float32)
            y = T.alloc_fragment((4, 512), T.float32)
            T.copy(A, a)
            T.copy(X, x)
            for i, j in T.Parallel(4, 512):
                y[i, j] = 0
                for k in T.serial(4):
                    y[i, j] += a[k, i] * x[k, j]
            T.copy(y, Y)

    result = assert_same(f, ints(4, 4), ints(4, 512), ints(4, 512))
    assert [] == conversions(result)
    found = fragments(result)
    assert (128, 1, 1) == (found["a"].replication, found["x"].replication, found["y"].replication)


def test_a_fragment_that_an_operator_needs_otherwise_is_moved_there():
    @T.prim_func
    def f(A: T.Tensor((64, 32), T.float16), B: T.Tensor((32, 64), T.float16), C: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_fragment((64, 32), T.float16)
            b = T.alloc_shared((32, 64), T.float16)
            c = T.alloc_fragment((64, 64), T.float32)
            T.annotate_layout({a: T.Fragment((64, 32), lambda i, j: (i * 2 + j // 16, j % 16))})
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    result = distribute(f, {Gemm: (FakeGemm(),)})
    (note,) = conversions(result)
    assert note.startswith("a: goes through 4096 bytes of shared memory for T.gemm multiplies it (line ")
    assert "its layout is fixed by T.annotate_layout of 'a'" in note
    found = fragments(result)
    assert accumulator(64, 32, 4).same_owners(found["a_moved"])
    assert not found["a"].same_owners(found["a_moved"])


def test_one_statement_with_two_wishes_is_an_error():
    @T.prim_func
    def f(B: T.Tensor((64, 64), T.float16)):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((64, 64), T.float16)
            b = T.alloc_shared((64, 64), T.float16)
            T.copy(B, b)
            T.gemm(b, b, x)

    with pytest.raises(LayoutConflict) as caught:
        distribute(f, {Gemm: (FakeGemm(torn=True),)})
    assert "'x': T.gemm" in caught.value.message
    assert "needs another layout than" in caught.value.message
    assert caught.value.loc is not None


def test_an_unknown_choice_is_our_fault():
    @T.prim_func
    def f(B: T.Tensor((64, 64), T.float16)):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((64, 64), T.float32)
            b = T.alloc_shared((64, 64), T.float16)
            T.gemm(b, b, x)

    with pytest.raises(CompilerBug, match="there is no lowering"):
        distribute(f, {Gemm: ()})


def test_elements_that_scalar_code_names_are_everywhere():
    @T.prim_func
    def f(A: T.Tensor((4,), T.float32), B: T.Tensor((4,), T.float32)):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_fragment((4,), T.float32)
            T.copy(A, x)
            x[1] = x[0] + x[3]
            for i in T.Parallel(4):
                B[i] = x[i] + x[1]

    result = assert_same(f, ints(4), ints(4))
    assert 64 == fragments(result)["x"].replication


def test_the_contiguous_dimension_comes_last():
    @T.prim_func
    def f(A: T.Tensor((64, 64), T.float32), B: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=64) as _:
            for j, i in T.Parallel(64, 64):
                B[i, j] = A[i, j] + i

    result = assert_same(f, ints(64, 64), ints(64, 64))
    (nest,) = nests(result)
    assert ["i", "j"] == [var.name for var in nest.vars]
    assert 4 == vector_of(nest.layout)


def test_transposed_tiles_meet_no_bank_conflicts():
    @T.prim_func
    def f(A: T.Tensor((32, 32), T.float32), B: T.Tensor((32, 32), T.float32)):
        with T.Kernel(1, threads=128) as _:
            s = T.alloc_shared((32, 32), T.float32)
            T.copy(A, s)
            for i, j in T.Parallel(32, 32):
                B[i, j] = s[j, i]

    result = distribute(f)
    ((buffer, layout),) = launches(result)[0].plan.shared_layouts
    assert "s" == buffer.name
    assert (32, 32) == layout.shape
    assert any(note.startswith("s: layout in shared memory") for note in notes(result))


def test_symbolic_loops_have_no_layout():
    @T.prim_func
    def f(A: T.Tensor((T.dyn["n"],), T.float32)):
        with T.Kernel(1, threads=128) as _:
            for i in T.Parallel(A.shape[0]):
                A[i] = A[i] + 1

    (nest,) = nests(distribute(f))
    assert nest.layout is None


def test_an_unused_fragment_has_a_layout():
    @T.prim_func
    def f(A: T.Tensor((4,), T.float32)):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_fragment((100,), T.float32)
            A[0] = 1

    assert 64 == fragments(distribute(f))["x"].threads


def test_stores_that_would_scatter_go_through_shared_memory():
    @T.prim_func
    def f(A: T.Tensor((64, 64), T.float32), B: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((64, 64), T.float32)
            y = T.alloc_fragment((64, 64), T.float32)
            T.copy(A, x)
            T.transpose(x, y)
            T.copy(y, B)

    result = assert_same(f, ints(64, 64), ints(64, 64))
    assert any("would move 4 times the bytes of global memory" in note for note in notes(result))
    assert 4 == vector_of(nests(result)[-1].layout)


@pytest.mark.parametrize("dtype", [T.float32, T.float16, T.int8])
def test_loops_and_tiles_are_settled_together(dtype):
    @T.prim_func
    def f(A: T.Tensor((64, 64), dtype), B: T.Tensor((64, 64), dtype)):
        with T.Kernel(1, threads=128) as _:
            s = T.alloc_shared((64, 64), dtype)
            for i, j in T.Parallel(64, 64):
                s[i, j] = A[i, j]
            for i, j in T.Parallel(64, 64):
                B[i, j] = s[j, i]

    result = distribute(f)
    (launch,) = launches(result)
    ((buffer, layout),) = launch.plan.shared_layouts
    itemsize = buffer.dtype.storage_bytes
    uses = tile_uses(result, launch, (Scope.SHARED,))
    found = [
        tile_access(use.access, use.nest, use.nest.layout, 2, Domain(), machine=MACHINE)
        for use in uses.of[buffer].nests
        if use.nest.layout is not None
    ]
    known = [access for access in found if access is not None]
    assert cost(layout, known, itemsize) <= 1.3 * ideal(known, itemsize)


def test_products_that_cannot_do_with_one_layout_of_a_tile_are_told() -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            y = T.alloc_shared((64, 64), "float16")
            z = T.alloc_fragment((64, 64), "float32")
            T.copy(A, y)
            T.gemm(y, y, z, clear_accum=True)
            T.gemm(y, y, z)

    assert distribute(main, {Gemm: (FakeGemm(modes=(128, 128)),)})
    with pytest.raises(LayoutConflict, match="'y': .* needs another layout in shared memory than") as error:
        distribute(main, {Gemm: (FakeGemm(modes=(128, 64)),)})
    first, second = error.value.notes[0].loc, error.value.loc
    assert first is not None
    assert second is not None
    assert first.line + 1 == second.line


def test_detours_take_no_memory_that_threads_in_roles_have_in_use():
    @T.prim_func
    def main(A: T.Tensor((128, 512), "float16"), B: T.Tensor((512, 256), "float16"), C: T.Tensor((256, 128), "int8")):
        with T.Kernel(2, 1, threads=128) as (bx, by):
            A_s = T.alloc_shared((128, 64), "float16")
            B_s = T.alloc_shared((64, 128), "float16")
            C_l = T.alloc_fragment((128, 128), "float32")
            T.clear(C_l)
            for k in T.Pipelined(8, num_stages=3):
                T.copy(A[by * 128, k * 64], A_s)
                T.copy(B[k * 64, bx * 128], B_s)
                T.gemm(A_s, B_s, C_l)
            for i, j in T.Parallel(128, 128):
                C[bx * 128 + j, by * 128 + i] = C_l[i, j]

    roomy = CompileOptions.from_user({"tl.stages": 3})
    for options, expected in ((CompileOptions(), 0), (roomy, 1)):
        made = run_passes(main, BACKEND.passes, PassContext(options, Target("cuda", "sm_90a")))
        (launch,) = launches(made)
        assert launch.plan.schedule is not None
        assert expected == sum("would move" in note.text for note in launch.plan.notes)
