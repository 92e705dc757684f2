"""A block that multiplies tiles by a lowering, with everything around it written out by hand.

Copies and fragments need passes; here each thread stores its elements by the fragment's own table, so that a lowering
is tested with nothing but the simulator.
"""

import dataclasses

import numpy as np
from answers import accepted

from tilelang.dtypes import BOOL, INT32, as_dtype
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Const, Load, Var, binary, cast, const
from tilelang.ir.func import Level, PrimFunc, TensorParam
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, CallStmt, For, ForKind, If, Launch, Store
from tilelang.layout.constraints import FixedLayout, SharedLayout
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.regions import whole
from tilelang.ops.gemm import Gemm, GemmWarpPolicy
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.thread import allocate_shared_memory, flatten_shared
from tilelang.sim.run import simulate
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.nvidia.requests import request_wgmma
from tilelang.targets.target import Target

BLOCK = Var("bx", INT32, index=True)


def constant(value):
    return const(value, INT32)


def buffer(name, shape, dtype, scope):
    return Buffer(name, tuple(constant(e) for e in shape), as_dtype(dtype), scope)


def loop(build, extent, kind, body):
    var = Var("t", INT32, index=True)
    with build.block() as statements:
        body(var)
    build.emit(For(var, constant(0), constant(extent), 1, kind, as_body(statements)))


def both(a, b):
    return binary(BinaryOp.AND, a, b)


@dataclasses.dataclass
class Case:
    """A product of tiles.

    `a_scope` and `b_scope` say where the operands lie; `stages` puts the tile at index 1 of so many. `clear_in_block`
    makes clearing a condition: the only block is number 0.
    """

    m: int
    n: int
    k: int
    dtype: str = "float16"
    accum: str = "float32"
    transpose_a: bool = False
    transpose_b: bool = False
    clear: bool | None = None
    policy: GemmWarpPolicy = GemmWarpPolicy.Square
    threads: int = 128
    arch: str = "sm_80"
    a_scope: Scope = Scope.SHARED
    b_scope: Scope = Scope.SHARED
    stages: int = 1
    clear_in_block: int | None = None
    wait: int = 0
    dtype_b: str | None = None  # where it is not that of A
    explicit: bool = False  # whether the program asks for the instructions of warpgroups

    @property
    def target(self):
        return Target("cuda" if self.arch.startswith("sm_") else "hip", self.arch)

    @property
    def dtypes(self):
        return self.dtype, self.dtype_b or self.dtype, self.accum

    @property
    def shapes(self):
        a = (self.k, self.m) if self.transpose_a else (self.m, self.k)
        b = (self.n, self.k) if self.transpose_b else (self.k, self.n)
        return a, b, (self.m, self.n)

    def gemm(self):
        """The operator, on fresh buffers."""
        regions = []
        scopes = (self.a_scope, self.b_scope, Scope.FRAGMENT)
        for name, shape, scope, dtype in zip("ABC", self.shapes, scopes, self.dtypes, strict=True):
            staged = scope is Scope.SHARED and self.stages > 1
            tile = buffer(f"{name}_tile", ((self.stages, *shape) if staged else shape), dtype, scope)
            if staged:
                start, extent = (constant(1), constant(0), constant(0)), (constant(1), *tile.shape[1:])
                regions.append(Region(tile, start, extent))
            else:
                regions.append(whole(tile))
        clear = None if self.clear is None else Const(self.clear, BOOL)
        if self.clear_in_block is not None:
            clear = binary(BinaryOp.EQ, BLOCK, constant(self.clear_in_block))
        asked = request_wgmma("T.wgmma_gemm", "T.gemm") if self.explicit else None
        return Gemm(*regions, self.transpose_a, self.transpose_b, clear, self.policy, self.wait, request=asked)

    def arguments(self, seed=0):
        rng = np.random.default_rng(seed)
        out = []
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            low = 0 if dtype.startswith("uint") else -3
            out.append(rng.integers(low, 4, shape).astype(as_dtype(dtype).numpy))
        return out

    def expected(self, a, b, c):
        wide = np.int64 if as_dtype(self.accum).is_int else np.float64
        a, b = (a.T if self.transpose_a else a).astype(wide), (b.T if self.transpose_b else b).astype(wide)
        product = a @ b + (0 if self.clear or self.clear_in_block == 0 else c.astype(wide))
        return product.astype(as_dtype(self.accum).numpy)


def lowered(case, lowering):
    """The thread-level function: parameters A, B and C, of which C is updated."""
    op = case.gemm()
    op.check()
    target = case.target
    context = LoweringContext(target, CompileOptions(), case.threads)
    plan = accepted(lowering, op, context)
    fragments, shared = {}, {}
    for constraint in lowering.constrain(op, plan, context):
        if isinstance(constraint, FixedLayout):
            fragments[constraint.var] = constraint.layout
        elif isinstance(constraint, SharedLayout):
            shared[constraint.var] = constraint.layout
    thread = Var("thread", INT32, index=True)
    params = [
        buffer(name, shape, region.dtype, Scope.GLOBAL)
        for name, shape, region in zip("ABC", case.shapes, (op.a, op.b, op.c), strict=True)
    ]
    registers = {f: buffer(f"{f.name}_held", (layout.values,), f.dtype, Scope.LOCAL) for f, layout in fragments.items()}
    build = Builder()
    for region in (op.a, op.b, op.c):
        build.emit(Alloc(registers.get(region.buffer, region.buffer)))
    for param, region in zip(params, (op.a, op.b, op.c), strict=True):
        if region.buffer in fragments:
            _move(
                build,
                param,
                fragments[region.buffer],
                registers[region.buffer],
                thread,
                case.threads,
                to_registers=True,
            )
        else:
            _fill_shared(build, param, region, thread, case.threads)
    if target.has(Feature.WGMMA):
        build.emit(CallStmt(FENCE_PROXY_ASYNC, ()))
    build.emit(CallStmt(SYNC_THREADS, ()))
    lowering.lower(
        op,
        plan,
        dataclasses.replace(context, thread=thread, fragments=fragments, registers=registers, shared_layouts=shared),
        build,
    )
    _move(build, params[2], fragments[op.c.buffer], registers[op.c.buffer], thread, case.threads, to_registers=False)
    layouts = LaunchPlan(shared_layouts=tuple(shared.items()))
    launch = Launch((BLOCK,), (constant(1),), (case.threads, 1, 1), build.finish(), thread=thread, plan=layouts)
    func = PrimFunc("main", tuple(TensorParam(p) for p in params), launch, Level.THREAD)
    context = PassContext(target=target)
    return flatten_shared.PASS.run(allocate_shared_memory.PASS.run(func, context), context)


def _fill_shared(build, param, region, thread, threads):
    rows, columns = (int(e.value) for e in param.shape)
    total = rows * columns

    def element(t):
        flat = t * threads + thread
        at = (flat // columns, flat % columns)
        index = (*region.start[:-2], *(first + place for first, place in zip(region.start[-2:], at, strict=True)))
        store = Store(region.buffer, index, Load(param, at, param.dtype))
        build.emit(If(flat < total, store))

    loop(build, -(-total // threads), ForKind.SERIAL, element)


def _move(build, param, layout, held, thread, threads, *, to_registers):
    rows, columns = layout.shape

    def element(v):
        at = layout.coordinates(thread, v)
        at = tuple(a if hasattr(a, "dtype") else constant(a) for a in at)
        inside = both(at[0] < rows, at[1] < columns)
        if to_registers:
            body = Store(held, (v,), Load(param, at, param.dtype))
        else:
            owner = thread
            body = Store(param, at, cast(Load(held, (v,), held.dtype), param.dtype))
            if layout.replication > 1:  # copies hold the same: the first one stores
                inside = both(inside, binary(BinaryOp.EQ, layout.owner(*at)[0], owner))
        build.emit(If(inside, body))

    loop(build, layout.values, ForKind.UNROLLED, element)


def run(case, lowering, seed=0, **options):
    """Simulates the lowered product; gives what it computed and what it should have."""
    func = lowered(case, lowering)
    a, b, c = case.arguments(seed)
    expected = case.expected(a, b, c)
    simulate(func, [a, b, c], target=case.target, **options)
    return c, expected
