"""Products by the matrix instructions of warpgroups, lowered and simulated, against NumPy; and what NVRTC says of them."""

import dataclasses
import itertools

import numpy as np
import pytest
from answers import constraints, reason
from device_text import needs_cuda_compiler
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered_gemm import Case, buffer, constant, lowered, run

from tilelang.dtypes import FLOAT32
from tilelang.errors import DataRace, OutOfBounds, SimulationError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import Rewriter, walk
from tilelang.layout.boxes import Boxes, boxed, find_boxes
from tilelang.layout.constraints import SharedLayout
from tilelang.layout.xor_swizzle import swizzled
from tilelang.lowering.lowering import LoweringContext
from tilelang.ops.gemm import GemmWarpPolicy
from tilelang.options import CompileOptions, PassConfigKey
from tilelang.sim.counters import Counters
from tilelang.sim.run import simulate
from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC
from tilelang.targets.nvidia.isa.wgmma import WGMMA_COMMIT, WGMMA_FENCE, wgmma_wait
from tilelang.targets.nvidia.isa.wgmma_registers import fence_operands
from tilelang.targets.nvidia.lowerings.gemm_wgmma import LOWERING
from tilelang.targets.nvidia.runtime.device_code import build
from tilelang.targets.target import Target

ARCH = "sm_90a"
ORDERS = list(itertools.product([False, True], repeat=2))
SIXTEEN = [("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32"), ("bfloat16", "bfloat16")]
OTHERS = [  # operands, sums, K of one instruction
    ("tfloat32", "float32", 8),
    ("float8_e4m3fn", "float32", 32),
    ("float8_e5m2", "float32", 32),
    ("int8", "int32", 32),
    ("uint8", "int32", 32),
]
SEEDED = [(128, 128, 32, 256), (128, 256, 64, 256), (64, 128, 64, 128), (256, 192, 64, 256), (64, 64, 64, 128)]


def case(*args, **options):
    return Case(*args, arch=ARCH, **options)


def check(made, **options):
    got, expected = run(made, LOWERING, **options)
    assert np.array_equal(expected.astype(np.float64), got.astype(np.float64))


@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORDERS)
@pytest.mark.parametrize(("dtype", "accum"), SIXTEEN)
def test_sixteen_bits_in_both_orders_of_both_operands(dtype, accum, transpose_a, transpose_b):
    for lazy in (True, False):
        check(case(64, 16, 32, dtype, accum, transpose_a, transpose_b), lazy=lazy)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize(("dtype", "accum", "k"), OTHERS)
def test_other_dtypes_lie_along_k(dtype, accum, k, held):
    scope = Scope.FRAGMENT if held else Scope.SHARED
    check(case(64, 16, 2 * k, dtype, accum, transpose_b=True, a_scope=scope), lazy=held)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("dtypes", [("float8_e4m3fn", "float8_e5m2"), ("float8_e5m2", "float8_e4m3fn")])
def test_8_bit_floats_of_two_dtypes(dtypes, held, lazy):
    scope = Scope.FRAGMENT if held else Scope.SHARED
    check(case(64, 16, 64, dtypes[0], "float32", transpose_b=True, a_scope=scope, dtype_b=dtypes[1]), lazy=lazy)


@pytest.mark.parametrize(("m", "n", "k", "threads"), SEEDED)
def test_tiles_that_kernels_use(m, n, k, threads):
    check(case(m, n, k, transpose_b=k == 32, threads=threads, clear=True))


@pytest.mark.parametrize("columns", [8, 16, 24, 32, 80, 136])
def test_every_width_of_rows_has_boxes(columns):
    check(case(64, columns, 16))


@pytest.mark.parametrize("k", [16, 32, 48, 80, 128])
def test_every_depth_has_boxes(k):
    check(case(64, 8, k, transpose_b=True))


@pytest.mark.parametrize("columns", [8, 24, 40, 72])
def test_integers_have_fewer_widths(columns):
    check(case(64, columns, 32, "int8", "int32", transpose_b=True))


@pytest.mark.slow(every=20)
@pytest.mark.parametrize("policy", GemmWarpPolicy)
@pytest.mark.parametrize(("m", "n", "threads"), [(64, 96, 256), (192, 24, 384), (128, 48, 256)])
@pytest.mark.parametrize("transposed", [False, True])
def test_several_warpgroups_share_rows_or_columns(m, n, threads, policy, transposed):
    check(case(m, n, 16, transpose_a=transposed, transpose_b=transposed, threads=threads, policy=policy))


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("m", [64, 40, 128])
def test_a_in_a_fragment(m, transpose_a):
    check(case(m, 16, 48, a_scope=Scope.FRAGMENT, transpose_a=transpose_a, transpose_b=m == 128))


PADDED = [(48, 128), (40, 128), (80, 128), (96, 256), (208, 128), (208, 256), (72, 256), (136, 384)]


@pytest.mark.slow(every=24)
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize(("m", "threads"), PADDED)
def test_rows_that_instructions_have_and_the_tile_has_not(m, threads, transpose_a):
    for k in (16, 80):
        check(case(m, 24, k, threads=threads, transpose_a=transpose_a), lazy=bool(k & 64))
    check(case(m, 24, 128, threads=threads, transpose_a=transpose_a, stages=2, clear=True))


@pytest.mark.parametrize(("dtype", "accum", "k"), OTHERS)
def test_other_dtypes_with_rows_that_the_tile_has_not(dtype, accum, k):
    check(case(48, 16, 2 * k, dtype, accum, transpose_b=True))


@pytest.mark.parametrize("m", [8, 16, 32])
def test_who_asks_for_them_by_name_gets_them_for_a_few_rows(m):
    for transpose_a in (False, True):
        for scope in (Scope.SHARED, Scope.FRAGMENT):
            check(case(m, 16, 32, transpose_a=transpose_a, a_scope=scope, explicit=True))


def test_the_block_has_the_memory_that_instructions_fetch():
    for made, line in [(case(48, 8, 64), 128), (case(48, 8, 16), 32), (case(48, 8, 64, transpose_a=True), 128)]:
        func = lowered(made, LOWERING)
        launch = func.body
        offsets = {b.name: offset for b, offset in launch.plan.shared_offsets}
        assert launch.plan.shared_bytes == offsets["A_tile"] + 64 * line
        plan = dataclasses.replace(launch.plan, shared_bytes=launch.plan.shared_bytes - 512)
        short = dataclasses.replace(func, body=dataclasses.replace(launch, plan=plan))
        with pytest.raises(OutOfBounds, match="'A_tile': matrix units fetch up to byte"):
            simulate(short, list(made.arguments()), target=Target("cuda", ARCH))


@pytest.mark.parametrize("accum", ["float32", "bfloat16"])
@pytest.mark.parametrize("clear", [{"clear": True}, {"clear": False}, {"clear_in_block": 0}, {"clear_in_block": 1}])
@pytest.mark.parametrize("k", [16, 32])
def test_sums_are_cleared_or_kept(accum, clear, k):
    check(case(64, 8, k, "bfloat16", accum, **clear))


def test_cleared_sums_are_not_stored_to():
    text = str(lowered(case(64, 64, 32, clear_in_block=0), LOWERING))
    assert "scale_d = not bx == 0" in text
    assert "k_step > 0 or scale_d" in text
    assert "C_tile_sums" not in text


def test_compilers_do_not_move_uses_of_sums_in_front_of_the_wait():
    steps = [s.routine for s in walk(lowered(case(64, 64, 32), LOWERING).body) if isinstance(s, CallStmt)]
    fence = fence_operands(FLOAT32, 32)
    assert [fence, WGMMA_FENCE] == steps[steps.index(WGMMA_FENCE) - 1 :][:2]
    assert [wgmma_wait(0), fence] == steps[steps.index(wgmma_wait(0)) :][:2]


@pytest.mark.parametrize("orders", ORDERS)
def test_a_tile_that_is_one_version_of_several(orders):
    check(case(64, 16, 32, stages=3, transpose_a=orders[0], transpose_b=orders[1]))


@settings(max_examples=8)
@given(
    m=st.sampled_from([64, 64, 128, 48, 104]),
    n=st.integers(1, 12).map(lambda n: 8 * n),
    k=st.integers(1, 4).map(lambda k: 16 * k),
    dtypes=st.sampled_from(SIXTEEN),
    orders=st.sampled_from(ORDERS),
    held=st.booleans(),
    warpgroups=st.integers(1, 2),
    policy=st.sampled_from(list(GemmWarpPolicy)),
    lazy=st.booleans(),
)
def test_random_products(m, n, k, dtypes, orders, held, warpgroups, policy, lazy):
    made = case(
        *(m, n, k, *dtypes, *orders),
        threads=128 * warpgroups,
        policy=policy,
        a_scope=Scope.FRAGMENT if held else Scope.SHARED,
    )
    if refusal(made):
        assert "warpgroups do not divide" in refusal(made) or "cut into no boxes" in refusal(made)
    else:
        check(made, lazy=lazy)


# -- parts of tiles ------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Part(Case):
    """A product whose operands are parts of larger tiles: `a_at` and `b_at` say where each begins."""

    a_at: tuple[int, int] = (0, 0)
    b_at: tuple[int, int] = (0, 0)
    larger: tuple[int, int] = (128, 128)

    def gemm(self):
        op = super().gemm()
        parts = []
        for region, at in ((op.a, self.a_at), (op.b, self.b_at)):
            tile = buffer(region.buffer.name, self.larger, self.dtype, Scope.SHARED)
            parts.append(Region(tile, tuple(map(constant, at)), region.extent))
        return dataclasses.replace(op, a=parts[0], b=parts[1])


@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize(("a_at", "b_at"), [((64, 64), (64, 0)), ((8, 16), (16, 0)), ((64, 0), (0, 48))])
def test_parts_of_tiles(orders, a_at, b_at):
    made = Part(64, 16, 16, "float16", arch=ARCH, transpose_a=orders[0], transpose_b=orders[1], a_at=a_at, b_at=b_at)
    if not refusal(made):
        check(made)
    else:
        assert "cut into no boxes" in refusal(made)


# -- layouts ---------------------------------------------------------------------------------------------------------


def shared(made, **context):
    op = made.gemm()
    found = constraints(LOWERING, op, LoweringContext(Target("cuda", ARCH), CompileOptions(), made.threads, **context))
    layouts = [constraint for constraint in found if isinstance(constraint, SharedLayout)]
    assert all(each.required for each in layouts)
    return {each.var.name: find_boxes(each.layout, each.var.static_shape, each.var.dtype.bits) for each in layouts}


def test_boxes_are_as_wide_as_rows_and_warpgroups_allow():
    wide = Boxes(128, 64)
    assert {"A_tile": wide, "B_tile": wide} == shared(case(128, 256, 64, threads=256))
    assert {"A_tile": Boxes(64, 32), "B_tile": wide} == shared(case(64, 128, 32))
    assert {"A_tile": Boxes(32, 16), "B_tile": Boxes(0, 8)} == shared(case(64, 24, 16))
    # each of two warpgroups begins at a box of its own
    assert Boxes(64, 32) == shared(case(64, 192, 64, threads=256))["B_tile"]


def test_a_layout_that_is_there_is_taken_or_refused():
    made = case(64, 64, 64)
    op = made.gemm()
    for layout, taken in (
        (swizzled((64, 64), 16, 128), True),
        (boxed((64, 64), 16, 64), True),
        (boxed((64, 64), 16, 16), True),
        (swizzled((64, 64), 16, 128, 2), False),
    ):
        context = LoweringContext(Target("cuda", ARCH), CompileOptions(), 128, shared_layouts={op.a.buffer: layout})
        assert taken is (not reason(LOWERING, op, context))
        if taken:
            pass_configs = [c.layout for c in constraints(LOWERING, op, context) if isinstance(c, SharedLayout)]
            assert pass_configs[0] == layout
        else:
            assert "'A_tile' has a layout that descriptors cannot describe" in reason(LOWERING, op, context)


def test_a_plan_is_kept_while_it_fits():
    op = case(128, 128, 64, threads=256).gemm()
    context = LoweringContext(Target("cuda", ARCH), CompileOptions(), 256)
    plan = LOWERING.accepts(op, context)
    planned = dataclasses.replace(op, plan=plan, wait=1)
    assert plan is LOWERING.accepts(planned, context)
    layouts = {op.a.buffer: boxed((128, 64), 16, 64)}
    other = (
        LOWERING.accepts(planned, dataclasses.replace(context, threads=128)),
        LOWERING.accepts(planned, dataclasses.replace(context, shared_layouts=layouts)),
        *(
            LOWERING.accepts(dataclasses.replace(made.gemm(), plan=plan), context)
            for made in (case(128, 256, 64, threads=256), case(128, 128, 64, a_scope=Scope.FRAGMENT, threads=256))
        ),
    )
    assert all(each != plan for each in other)


# -- refusals --------------------------------------------------------------------------------------------------------


def refusal(made, arch=ARCH, options=CompileOptions()):
    return reason(LOWERING, made.gemm(), LoweringContext(Target("cuda", arch), options, made.threads))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (case(64, 64, 32, threads=96), "96 threads are no whole number of warpgroups"),
        (case(32, 64, 32), "M is 32: mma.sync needs no padding"),
        (case(16, 64, 32, a_scope=Scope.FRAGMENT), "M is 16: mma.sync needs no padding"),
        (case(40, 64, 32), ""),
        (case(44, 64, 32), "cannot be cut into boxes"),
        (case(44, 64, 32, transpose_a=True), "cannot be cut into boxes"),
        (case(64, 64, 40), "K is 40, no multiple of 16"),
        (case(64, 64, 24), "K is 24, no multiple of 16"),
        (case(64, 60, 32), "N is 60, no multiple of 8"),
        (case(64, 64, 32, threads=1024, policy=GemmWarpPolicy.FullRow), ""),
        (case(64, 16, 32, threads=512), "its warpgroups do not divide the tile of 64 x 16"),
        (case(64, 64, 32, "float32", "float32"), "does not multiply float32 with an accumulator of float32"),
        (case(64, 64, 32, "float64", "float64"), "does not multiply float64"),
        (case(64, 64, 32, "int8", "int32"), "B of int8 is not contiguous along K"),
        (case(64, 64, 32, "int8", "int32", transpose_a=True, transpose_b=True), "A of int8 is not contiguous"),
        (case(64, 64, 32, b_scope=Scope.FRAGMENT), "B is in scope local.fragment"),
        (case(64, 64, 32, wait=8), "8 groups cannot be left pending"),
    ],
)
def test_a_refusal_says_why(made, words):
    assert words in refusal(made)
    assert bool(words) is bool(refusal(made))


@pytest.mark.parametrize("rows", [8, 16, 32])
def test_few_rows_are_padded_where_others_bring_the_tiles(rows):
    made = case(rows, 64, 32)
    assert "mma.sync needs no padding" in refusal(made)
    context = LoweringContext(Target("cuda", ARCH), CompileOptions(), made.threads, has_producer=True)
    assert not reason(LOWERING, made.gemm(), context)


def test_other_targets_have_no_warpgroups():
    made = case(64, 64, 32)
    assert "sm_80 has no wgmma" == refusal(made, "sm_80")
    assert refusal(made, "sm_90")
    options = CompileOptions(pass_configs=((PassConfigKey.TL_DISABLE_WGMMA.value, True),))
    assert "tl.disable_wgmma is set" == refusal(made, options=options)


# -- what would go wrong ---------------------------------------------------------------------------------------------


class _Without(Rewriter):
    """Leaves an instruction out, or puts another in its place."""

    def __init__(self, routine, other=None):
        self._routine, self._other = routine, other

    def stmt(self, node):
        if isinstance(node, CallStmt) and node.routine is self._routine:
            return None if self._other is None else dataclasses.replace(node, routine=self._other)
        return self.rebuild_stmt(node)


class _Broken:
    """The lowering without an instruction."""

    def __init__(self, routine, other=None):
        self._rewriter = _Without(routine, other)

    accepts, constrain = LOWERING.accepts, LOWERING.constrain

    def lower(self, op, plan, context, build):
        with build.block() as statements:
            LOWERING.lower(op, plan, context, build)
        for stmt in statements:
            kept = self._rewriter.visit(stmt)
            if kept is not None:
                build.emit(kept)


@pytest.mark.parametrize(
    ("routine", "other", "kind", "words"),
    [
        (WGMMA_FENCE, None, SimulationError, "execute wgmma.fence"),
        (wgmma_wait(0), None, DataRace, "wait for it first: T.wait_wgmma(0)"),
        (wgmma_wait(0), wgmma_wait(1), DataRace, "wait for it first: T.wait_wgmma(0)"),
        (WGMMA_COMMIT, None, DataRace, "wait for it first: T.wait_wgmma(0)"),
    ],
)
def test_the_simulator_misses_what_is_left_out(routine, other, kind, words):
    with pytest.raises(kind) as error:
        run(case(64, 16, 32), _Broken(routine, other))
    assert words in error.value.hint


def test_the_simulator_misses_a_fence_between_proxies(monkeypatch):
    made = case(64, 16, 32)
    func = lowered(made, LOWERING)
    without = dataclasses.replace(func, body=_Without(FENCE_PROXY_ASYNC).visit(func.body))
    monkeypatch.setattr("lowered_gemm.lowered", lambda *_: without)
    with pytest.raises(SimulationError, match="fence"):
        run(made, LOWERING)


def test_instructions_are_counted():
    counters = Counters()
    run(case(128, 64, 32, threads=256), LOWERING, report=counters)
    assert 8 * 2 == counters.instructions["tl_wgmma_m64n64k16_f32_f16_f16_kn"]


# -- what compilers say ----------------------------------------------------------------------------------------------


@pytest.mark.slow(every=8)
@needs_cuda_compiler
@pytest.mark.parametrize(
    "made",
    [
        case(128, 256, 64, threads=256, clear_in_block=0),
        case(256, 192, 64, threads=256, transpose_b=True),
        case(64, 128, 64, a_scope=Scope.FRAGMENT, transpose_a=True),
        case(64, 64, 64, "int8", "int32", transpose_b=True),
        case(128, 128, 64, "float8_e4m3fn", "float32", transpose_b=True, a_scope=Scope.FRAGMENT),
        case(64, 64, 64, "float8_e5m2", "float32", transpose_b=True, dtype_b="float8_e4m3fn"),
        case(64, 64, 32, "float16", "float16"),
        case(80, 128, 64, threads=256),
    ],
)
def test_products_compile_without_advice(made):
    (used,) = build(emit(lowered(made, LOWERING)), ARCH, "nvrtc").resources.values()
    assert (0, False) == (used.spill_bytes, used.serialized)
