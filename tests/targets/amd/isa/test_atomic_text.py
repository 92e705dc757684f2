import itertools

import pytest
from hip_text import GENERATIONS, assembly_of, function_of, hip_source, needs_clang

from tilelang.dtypes import SCALARS, as_dtype, lane_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import as_expr, const
from tilelang.ir.stmt import Atomic, AtomicOp, MemoryOrder, MemoryScope
from tilelang.ir.vector import pack
from tilelang.targets.amd.isa.atomic_text import atomic_text, vector_lanes
from tilelang.targets.amd.isa.types import hip_type
from tilelang.targets.amd.machines import MACHINES

WITHOUT_VALUE, WITH_TWO = (AtomicOp.LOAD,), (AtomicOp.CAS,)


def statement(op, dtype, order=MemoryOrder.RELAXED, scope=MemoryScope.GPU, where=Scope.GLOBAL):
    buffer = Buffer("x", (as_expr(64),), dtype, where)
    value = None if op in WITHOUT_VALUE else const(0, dtype)
    compare = const(0, dtype) if op in WITH_TWO else None
    return Atomic(op, buffer, (as_expr(0),), value, order=order, scope=scope, compare=compare)


def function(number, stmt):
    template, dtype = atomic_text(stmt), stmt.buffer.dtype
    kind = hip_type(dtype)
    values = [f"({kind.value})0"] * (0 if stmt.op in WITHOUT_VALUE else 2 if stmt.op in WITH_TWO else 1)
    text = template.format(f"(({kind.name}*)a + i)", *values)
    text = f"({text}, 0)" if stmt.op is AtomicOp.STORE else text
    made = "int" if stmt.op is AtomicOp.STORE else kind.value
    return [template.helper, kind.helper], function_of(f"f{number}", made, [kind.name], text)


def compiled(stmts, arch):
    rows = [function(number, stmt) for number, stmt in enumerate(stmts)]
    return assembly_of(hip_source([h for helpers, _ in rows for h in helpers], [text for _, text in rows]), arch)


def operations(dtype):
    bits = (AtomicOp.AND, AtomicOp.OR, AtomicOp.XOR)
    return [op for op in AtomicOp if dtype.is_int or op not in bits]


@pytest.mark.slow(every=8)
@needs_clang
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1201"])
def test_every_operation_compiles(arch: str) -> None:
    compiled([statement(op, dtype) for dtype in SCALARS.values() for op in operations(dtype)], arch)


@needs_clang
def test_orders_and_scopes_compile() -> None:
    every = itertools.product(AtomicOp, ("int32", "float16"), MemoryOrder, MemoryScope)
    stmts = [statement(op, SCALARS[name], *how) for op, name, *how in every if op in operations(SCALARS[name])]
    compiled(stmts, "gfx942")


@needs_clang
@pytest.mark.parametrize(("arch", "instruction"), [("gfx942", "global_atomic_add_f32"), ("gfx1100", "global_atomic_add_f32")])
def test_floats_are_added_by_one_instruction(arch: str, instruction: str) -> None:
    assert instruction in compiled([statement(AtomicOp.ADD, SCALARS["float32"])], arch)


def test_memory_on_the_chip_orders_the_threads_of_a_block() -> None:
    stmt = statement(AtomicOp.ADD, SCALARS["int32"], MemoryOrder.ACQ_REL, where=Scope.SHARED)
    assert "__hip_atomic_fetch_add({0}, (int32_t)({1}), __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_WORKGROUP)" == atomic_text(stmt).text


def test_loads_acquire_and_stores_release_only() -> None:
    load = atomic_text(statement(AtomicOp.LOAD, SCALARS["int32"], MemoryOrder.RELEASE)).text
    store = atomic_text(statement(AtomicOp.STORE, SCALARS["int32"], MemoryOrder.ACQ_REL)).text
    assert "__ATOMIC_RELAXED" in load and "__ATOMIC_RELEASE" in store


def vector(dtype, order=MemoryOrder.RELAXED, scope=MemoryScope.GPU):
    lane = lane_dtype(as_dtype(dtype))
    value = pack([const(n, lane) for n in range(as_dtype(dtype).lanes)])
    return Atomic(AtomicOp.ADD, Buffer("x", (as_expr(64),), lane, Scope.GLOBAL), (as_expr(0),), value, order=order, scope=scope)


def added(stmt, arch):
    template, kind = atomic_text(stmt), hip_type(stmt.value.dtype).name
    text = f"({template.format(f'({hip_type(stmt.buffer.dtype).name}*)made', 'a[i]')}, a[i])"
    return assembly_of(hip_source([template.helper], [function_of("f", kind, [kind], text)]), arch)


@pytest.mark.slow(every=8)
@needs_clang
@pytest.mark.parametrize("arch", GENERATIONS)
@pytest.mark.parametrize("dtype", ["float16x2", "bfloat16x2", "float16x8"])
def test_pairs_of_halves_are_added_by_one_instruction_where_there_is_one(arch: str, dtype: str) -> None:
    lanes = vector_lanes(MACHINES[arch]).get(dtype.partition("x")[0], ())
    assert (2 in lanes) == ("global_atomic_pk_add_" in added(vector(dtype), arch))


@needs_clang
def test_other_vectors_are_added_one_by_one() -> None:
    assert 4 == added(vector("float32x4"), "gfx942").count("global_atomic_add_f32")
    for order, scope in ((MemoryOrder.ACQ_REL, MemoryScope.GPU), (MemoryOrder.RELAXED, MemoryScope.SYSTEM)):
        assert "global_atomic_pk_add_" not in added(vector("float16x2", order, scope), "gfx942")
