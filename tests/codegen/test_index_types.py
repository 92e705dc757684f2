"""Widths of index arithmetic: 32 bits only where nothing can overflow, shown by running the text."""

import ctypes
import random

from cuda_host import compile_checked, needs_compiler

from tilelang.arith.domain import Domain
from tilelang.arith.interval import bounds
from tilelang.codegen.c_expr import ExprPrinter
from tilelang.codegen.index_types import IndexTypes, ProvenIndexTypes
from tilelang.codegen.names import Names
from tilelang.dtypes import FLOAT32, INT32, INT64
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Binary, Expr, Load, Var, as_expr, binary, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import For, ForKind, Seq
from tilelang.targets.nvidia.codegen.cuda_dialect import CUDA

I, J, K, N = (Var(name, dtype, index=True) for name, dtype in (("i", INT32), ("j", INT32), ("k", INT32), ("n", INT64)))
RANGES = {I: (0, 100), J: (-(2**31), 2**31 - 1), K: (0, 70000), N: (-(2**40), 2**40)}


def domain():
    known = Domain()
    for var, (low, high) in RANGES.items():
        known = known.with_range(var, low, high)
    return known


OPERATORS = (
    *(BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.MIN, BinaryOp.MAX, BinaryOp.FLOORDIV, BinaryOp.FLOORMOD),
    *(BinaryOp.TRUNCDIV, BinaryOp.TRUNCMOD, BinaryOp.BITAND, BinaryOp.BITOR, BinaryOp.BITXOR),
)


def draw(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice((I, I, J, K, K, N, as_expr(rng.choice((0, 1, 2, 3, 8, 64, 100, -5, 2**31 - 1, -(2**31), 2**35)))))
    if rng.random() < 0.15:
        return select(draw(rng, 1) < draw(rng, 1), draw(rng, depth - 1), draw(rng, depth - 1))
    if rng.random() < 0.25:
        op = rng.choice((BinaryOp.FLOORDIV, BinaryOp.FLOORMOD, BinaryOp.TRUNCDIV, BinaryOp.TRUNCMOD, BinaryOp.SHL, BinaryOp.SHR))
        amount = rng.choice((1, 2, 5)) if op in (BinaryOp.SHL, BinaryOp.SHR) else rng.choice((1, 2, 3, 7, 8, 64, 2**33))
        return binary(op, draw(rng, depth - 1), amount)
    return binary(rng.choice(OPERATORS), draw(rng, depth - 1), draw(rng, depth - 1))


def fits_in_64_bits(expr: Expr) -> bool:
    """Whether no part of the expression needs more than the widest type."""
    parts = [expr]
    while parts:
        part = parts.pop()
        low, high = bounds(part, domain())
        if part.dtype.is_int and (low is None or high is None or low < -(2**63) or high >= 2**63):
            return False
        parts += [getattr(part, name) for name in ("condition", "a", "b") if isinstance(getattr(part, name, None), Expr)]
    return True


@needs_compiler
def test_printed_index_arithmetic_is_exact_and_overflows_nowhere(capfd):
    rng = random.Random(7)
    exprs = [e for e in (draw(rng, 3) for _ in range(300)) if fits_in_64_bits(e) and isinstance(e, Binary)]
    assert len(exprs) > 100
    names, types = Names(), ProvenIndexTypes(domain())
    printer = ExprPrinter(names, CUDA, types)
    kinds = {var: printer.index_type(types.declare(var)) for var in RANGES}
    assert ["int", "int", "int", "int64_t"] == [*kinds.values()]
    lines = [f"    const {kind} {names.declare(var)} = ({kind})v[{n}];" for n, (var, kind) in enumerate(kinds.items())]
    texts = [printer.exact(expr) for expr in exprs]
    assert {32, 64} == {text.bits for text in texts}
    for number, text in enumerate(texts):
        kind = printer.index_type(text.bits)
        lines += [f"    static_assert(sizeof({text.text}) <= sizeof({kind}), \"\");", f"    out[{number}] = {text.text};"]
    function = "\n".join(['extern "C" void f(const int64_t* v, int64_t* out) {', *lines, "}"])
    library = compile_checked(printer.helpers.values(), function)
    out = (ctypes.c_int64 * len(exprs))()
    for _ in range(100):
        point = {var: rng.choice((low, high, 0, 1, rng.randint(low, high))) for var, (low, high) in RANGES.items()}
        library.f((ctypes.c_int64 * 4)(*point.values()), out)
        expected = [int(evaluate(expr, point)) for expr in exprs]
        assert expected == list(out)
    assert "" == capfd.readouterr().err


def test_without_facts_everything_is_64_bits_wide():
    assert 64 == IndexTypes().bits(I)
    assert 64 == IndexTypes().declare(I)


def test_a_bound_variable_is_as_wide_as_its_value():
    types = ProvenIndexTypes(domain())
    small, large = Var("small", INT32, index=True), Var("large", INT32, index=True)
    assert (32, 64) == (types.bind(small, I * 1000), types.bind(large, K * K))
    assert (32, 64) == (types.declared(small), types.declared(large))
    assert 32 == types.bits(small * 2)


def test_facts_end_with_their_scope():
    types = ProvenIndexTypes(domain())
    assert 64 == types.bits(N + 1)
    with types.given(N < 100), types.given(N >= 0):
        assert 32 == types.bits(N + 1)
    assert 64 == types.bits(N + 1)
    with types.given(N < 0, holds=False), types.given(N > 100, holds=False):
        assert 32 == types.bits(N)


def test_a_loop_variable_has_room_for_the_step_that_ends_the_loop():
    last = as_expr(2**31 - 1)

    def bits(stop, step):
        types = ProvenIndexTypes(domain())
        var = Var("x", INT32, index=True)
        with types.scope():
            return types.loop(For(var, as_expr(0), stop, step, ForKind.SERIAL, Seq(())))

    assert [32, 64, 32, 64] == [bits(last, 1), bits(last, 4), bits(K * 8, 8), bits(N, 1)]


def test_offsets_of_small_static_tensors_need_32_bits():
    types = ProvenIndexTypes(domain())

    def bits(*shape, scope=Scope.GLOBAL, strides=None):
        shape = tuple(as_expr(e) for e in shape)
        strides = strides and tuple(as_expr(s) for s in strides)
        return types.offset_bits(Buffer("A", shape, FLOAT32, scope, strides))

    assert 32 == bits(2**15, 2**16)
    assert 64 == bits(2**15, 2**16, 2)
    assert 32 == bits(4, 8, strides=(2**20, 1))
    assert 64 == bits(2**11 + 1, 8, strides=(2**20, 1))
    assert bits(K, 8) is None
    assert bits(4, 8, strides=(N, 1)) is None
    assert 32 == ProvenIndexTypes(domain(), wide=False).offset_bits(Buffer("A", (K, as_expr(8)), FLOAT32, Scope.GLOBAL))
    assert 32 == bits(64, scope=Scope.SHARED)


def test_counters_are_as_narrow_as_the_data_that_ends_their_loops():
    count, var = Var("count", INT32), Var("i", INT32, index=True)
    data = Buffer("data", (as_expr(4),), INT32, Scope.GLOBAL)
    loop = For(var, as_expr(0), count, 1, ForKind.SERIAL, Seq(()))
    for value, width in ((Load(data, (as_expr(0),), INT32) // 256, 32), (Load(data, (as_expr(0),), INT32), 64)):
        types = ProvenIndexTypes(Domain())
        types.bind_data(count, value)
        assert 32 == types.loop(loop)
        assert width == types.bits(var * 256 + 2)


def test_assumptions_and_the_range_of_what_was_loaded_narrow_types():
    types, number = ProvenIndexTypes(Domain()), Var("number", INT32, index=True)
    loaded = Load(Buffer("count", (), INT32, Scope.VAR), (), INT32)
    assert 32 == types.bind(number, loaded)
    assert 64 == types.bits(number * 4)
    with types.scope():
        types.assume((number >= 0) & (number < 100))
        assert 32 == types.bits(number * 4)
        assert types.is_nonnegative(number)
    assert 64 == types.bits(number * 4)
    masked = Var("masked", INT32, index=True)
    assert 32 == types.bind(masked, binary(BinaryOp.BITAND, loaded, 15))
    assert 32 == types.bits(masked * 4)
    assert types.is_nonnegative(masked)
