"""Operands that a loop does not change are copied to registers before it."""

import dataclasses

import pytest
from specialized import launch_of

import tilelang.language as T
from tilelang.ir.buffer import Scope
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import For
from tilelang.ir.visit import walk
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.schedule.hold_operands import HoldOperands, along_k, depth_of
from tilelang.schedule.load_groups import flatten_sequences


def scores(*, refilled=False, moves=None):
    @T.prim_func
    def main(Q: T.Tensor((64, 128), "float16"), K: T.Tensor((192, 128), "float16"), N: T.Tensor((1,), "int32"),
             O: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            Q_s = T.alloc_shared((64, 128), "float16")
            K_s = T.alloc_shared((64, 128), "float16")
            S = T.alloc_fragment((64, 64), "float32")
            T.copy(Q, Q_s)
            T.clear(S)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(K[k * 64, 0], K_s)
                if moves:
                    first = T.min(k, 0) if moves == "variable" else T.atomic_add(N[0], 1, return_prev=True)
                    T.gemm(Q_s[first : first + 64, :], K_s, S, transpose_B=True)
                else:
                    T.gemm(Q_s, K_s, S, transpose_B=True)
                if refilled:
                    T.clear(Q_s)
            T.copy(S, O)

    return flatten_sequences(launch_of(main))


def held(launch, columns):
    def divided(gemm, tile, count):
        first = depth_of(gemm) - count
        if first:
            yield dataclasses.replace(gemm, a=along_k(gemm, 0, 0, first), b=along_k(gemm, 1, 0, first))
        yield dataclasses.replace(gemm, a=whole(tile), b=along_k(gemm, 1, first))

    hold = HoldOperands(lambda gemm: columns, divided)
    return hold.visit(launch.body), [note.text for note in hold.notes]


def test_the_last_columns_are_copied_before_the_loop():
    body, notes = held(scores(), 32)
    statements = flat_statements(body)
    loop = next(n for n, stmt in enumerate(statements) if isinstance(stmt, For))
    copy = statements[loop - 1]
    assert isinstance(copy, Copy)
    assert (Scope.FRAGMENT, (64, 32)) == (copy.dst.buffer.scope, copy.dst.buffer.static_shape)
    assert ["0", "96"] == [str(index) for index in copy.src.start]
    gemms = [stmt for stmt in walk(body) if isinstance(stmt, Gemm)]
    assert [96, 32] == [depth_of(gemm) for gemm in gemms]
    assert gemms[1].a.buffer is copy.dst.buffer
    assert ["32 of 128 columns of 'Q_s' stay in registers"] == notes


def test_what_the_loop_writes_stays_in_shared_memory():
    launch = scores(refilled=True)
    assert [] == held(launch, 32)[1]
    assert [] == held(scores(), 0)[1]


@pytest.mark.parametrize("by", ["variable", "result of an atomic operation"])
def test_what_the_loop_moves_along_stays_in_shared_memory(by):
    assert [] == held(scores(moves=by), 32)[1]
