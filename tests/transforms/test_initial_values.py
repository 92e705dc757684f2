"""Mutable scalars of a pipelined loop begin with what the statements before them left."""

import numpy as np
import pytest
from gpu import assert_simulates

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, const
from tilelang.ir.stmt import Alloc, Bind, For, ForKind, PipelineSpec, Seq, Store
from tilelang.transforms.initial_values import with_initial_values_stored

ZERO = const(0, INT32)
X, Y = (Buffer(name, (), INT32, Scope.VAR) for name in "xy")
FIRST, SECOND = Store(Y, (), ZERO), Store(Y, (), const(1, INT32))


def loop(*body, **places):
    return For(Var("k", INT32, index=True), ZERO, const(4, INT32), 1, ForKind.PIPELINED, Seq(body), PipelineSpec(2, **places))


def test_an_allocation_with_a_first_value_becomes_two_statements():
    name = Bind(Var("v", INT32), ZERO)
    alloc, again, store, rest = with_initial_values_stored(loop(name, Seq((Alloc(X, ZERO), FIRST)))).body.body[1:] + (None,)
    assert alloc.buffer is X and alloc.init is None
    assert again.buffer is X and again.value is ZERO
    assert store is FIRST and rest is None


def test_a_loop_without_first_values_stays_as_it_is():
    plain = loop(Alloc(X), FIRST)
    assert with_initial_values_stored(plain) is plain


def test_places_by_hand_speak_of_the_other_statements():
    spec = with_initial_values_stored(loop(FIRST, Alloc(X, ZERO), SECOND, stage=(0, 1), order=(1, 0))).pipeline
    assert (0, 1, 1) == spec.stage
    assert [1, 2, 0] == sorted(range(3), key=lambda n: spec.order[n])
    spec = with_initial_values_stored(loop(FIRST, SECOND, Alloc(X, ZERO), stage=(0, 1))).pipeline
    assert (0, 1, 1) == spec.stage
    assert [0, 1, 2] == sorted(range(3), key=lambda n: spec.order[n])


def test_groups_of_an_older_kind_stay_as_they_are():
    spec = PipelineSpec(2, (-1, 0, 1), (-1, 0, 0))
    assert with_initial_values_stored(loop(FIRST, Alloc(X, ZERO), order=spec.order, stage=spec.stage)).pipeline == spec


@pytest.mark.parametrize("stages", [0, 2, 3])
def test_a_scalar_that_begins_with_what_was_copied(stages):
    @T.prim_func
    def main(A: T.Tensor((32,), "int32"), O: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((8,), "int32")
            for k in T.Pipelined(4, num_stages=stages):
                T.copy(A[k * 8], S)
                half = S[3] // 2 + k
                x = T.alloc_var("int32", init=half + S[0])
                x += 1
                for i in T.Parallel(8):
                    O[i] = O[i] * 2 + S[i] + x

    a = np.random.randint(-50, 50, 32).astype(np.int32)
    assert_simulates(main, a, np.zeros(8, np.int32))
