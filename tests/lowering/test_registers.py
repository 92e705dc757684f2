"""Loops over register arrays, with indices as short as they get."""

import pytest

from tilelang.arith.domain import Domain
from tilelang.dtypes import FLOAT32, INT32, as_dtype
from tilelang.errors import CompilerBug
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Const, Load, Var, const
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import ForKind
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.registers import Emitter, emitter, vector
from tilelang.options import CompileOptions
from tilelang.targets.target import Target


def emitted(fill):
    build = Builder()
    thread = Var("thread", INT32, index=True)
    fill(Emitter(build, Domain().with_range(thread, 0, 127)), thread)
    return to_text(build.finish()).strip().splitlines()


def test_loops_are_unrolled_and_their_indices_simplified():
    def fill(emit, thread):
        array = emit.registers("a", 8, FLOAT32)
        emit.loop("i", 4, lambda i: emit.store(array, i * 2 % 8, const(0, FLOAT32)))

    assert ['a = T.alloc_local((8,), "float32")', "for i in T.unroll(4):", "    a[i * 2] = 0.0"] == emitted(fill)


def test_a_single_iteration_is_no_loop():
    def fill(emit, thread):
        array = emit.registers("a", 1, FLOAT32)
        emit.loop("i", 1, lambda i: emit.store(array, i, const(1, FLOAT32)))

    assert "a[0] = 1.0" == emitted(fill)[-1]


def test_an_empty_array_is_not_allocated():
    assert "alloc" not in "".join(emitted(lambda emit, thread: emit.registers("a", 0, FLOAT32)))


def test_a_loop_may_begin_later():
    def fill(emit, thread):
        array = emit.registers("a", 4, FLOAT32)
        emit.loop("i", 2, lambda i: emit.store(array, i * 2, const(1, FLOAT32)), start=1)
        emit.loop("i", 1, lambda i: emit.store(array, i, const(2, FLOAT32)), start=1)

    assert ["for i in T.unroll(1, 2):", "    a[i * 2] = 1.0"] == emitted(fill)[1:]


def test_other_kinds_of_loops():
    def fill(emit, thread):
        array = emit.registers("a", 1, FLOAT32)
        emit.loop("i", 3, lambda i: emit.store(array, 0, const(1, FLOAT32)), kind=ForKind.SERIAL)

    assert "for i in T.serial(3):" == emitted(fill)[1]


def test_names_are_given_to_what_changes_only():
    def fill(emit, thread):
        assert isinstance(emit.bind("zero", thread // 128, 1), Const)
        lane = emit.bind("lane", thread % 32, 32)
        assert emit.bind("same", lane, 32) is lane
        emit.bind("row", lane // 4, 8)

    assert ["lane = thread % 32", "row = lane // 4"] == emitted(fill)


def test_parts_and_elements():
    emit = Emitter(Builder(), Domain())
    array = emit.registers("a", 8, FLOAT32)
    part = emit.part(array, 4, 2)
    assert (array, (2,)) == (part.buffer, part.static_extent)
    assert isinstance(emit.load(array, 3), Load)


def test_vectors():
    assert as_dtype("float16x8") == vector(as_dtype("float16"), 8)
    assert as_dtype("int8") == vector(as_dtype("int8"), 1)


def test_lowerings_know_the_range_of_the_executing_thread():
    thread = Var("thread", INT32, index=True)
    emit, found = emitter(Builder(), LoweringContext(Target("cuda", "sm_80"), CompileOptions(), 128, thread), "some.way")
    assert found is thread
    assert emit.short(thread // 128).value == 0
    with pytest.raises(CompilerBug, match="some.way: lowered before there are threads"):
        emitter(Builder(), LoweringContext(Target("cuda", "sm_80"), CompileOptions(), 128), "some.way")
