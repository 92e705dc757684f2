"""The register of a fragment element within a thread."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import drop_dim

from tilelang.dtypes import FLOAT32, INT32
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.visit import walk_expr
from tilelang.layout.digits import Mode, identity
from tilelang.layout.propagate import element_layout
from tilelang.layout.thread_values import fragment, replicated
from tilelang.targets.gpu.lowerings.loop_partition import LoopPartition
from tilelang.targets.gpu.lowerings.register_index import RegisterIndices, is_replicated, replicated_register_index

THREAD, I, J, K = (Var(name, INT32, index=True) for name in ("thread", "i", "j", "k"))


def tile(*shape):
    return Buffer("F", tuple(as_expr(e) for e in shape), FLOAT32, Scope.FRAGMENT)


@st.composite
def nests(draw):
    """A layout of a nest of two dimensions: digits of both, dealt to threads and values in any order."""
    digits = []
    for axis in range(2):
        place = 1
        for size in draw(st.lists(st.sampled_from([2, 3, 4]), min_size=1, max_size=2)):
            digits.append(Mode(size, tuple(place if k == axis else 0 for k in range(2))))
            place *= size
    shape = tuple(int(np.prod([d.size for d in digits if d.stride[axis]])) for axis in range(2))
    order = draw(st.permutations(digits))
    cut = draw(st.integers(1, len(order)))
    copies = [Mode(2, (0, 0))] if draw(st.booleans()) else []
    return fragment(shape, [*order[:cut], *copies], order[cut:])


def check(partition, layout, indices, expr, elements):
    """Every thread finds its element in the register named, whatever the iteration."""
    table = partition.layout.table
    for thread in range(partition.layout.threads):
        for value in range(partition.layout.values):
            env, rest = {THREAD: thread}, value
            loops = iter(partition.digits)
            for mode in partition.layout.value:
                if not mode.is_broadcast:
                    env[next(loops).var] = rest % mode.size
                rest //= mode.size
            place = int(evaluate(expr, env))
            assert tuple(layout.table[thread, place]) == elements(*table[thread, value])


@given(nests())
def test_the_register_is_computed_from_the_digits_of_the_loop(layout):
    partition = LoopPartition(layout, THREAD)
    register_indices = RegisterIndices(partition, (I, J))
    expr = register_indices.of(tile(*layout.shape), layout, (I, J), {}, writes=True)
    assert not any(node is THREAD for node in walk_expr(expr))
    check(partition, layout, (I, J), expr, lambda i, j: (i, j))


@given(nests(), st.sampled_from([0, 1]))
def test_a_replicated_element_is_found_in_every_replica(layout, dim):
    kept = element_layout(drop_dim(layout.shape, dim), layout)
    partition = LoopPartition(layout, THREAD)
    index = J if dim == 0 else I
    expr = RegisterIndices(partition, (I, J)).of(tile(layout.shape[1 - dim]), kept, (index,), {}, writes=True)
    assert not any(node is THREAD for node in walk_expr(expr))
    check(partition, kept, (index,), expr, lambda i, j: ((j if dim == 0 else i),))


def test_permuted_registers_are_found_by_division():
    nest = fragment((4, 8), [Mode(4, (1, 0))], [Mode(8, (0, 1))])
    layout = fragment((4, 8), [Mode(4, (1, 0))], [Mode(2, (0, 4)), Mode(4, (0, 1))])
    partition = LoopPartition(nest, THREAD)
    expr = RegisterIndices(partition, (I, J)).of(tile(4, 8), layout, (I, J), {}, writes=False)
    check(partition, layout, (I, J), expr, lambda i, j: (i, j))


def test_inner_loops_index_registers():
    nest = fragment((32,), [Mode(32, (1,))], [])
    layout = fragment((32, 6), [Mode(32, (1, 0))], [Mode(6, (0, 1))])
    expr = RegisterIndices(LoopPartition(nest, THREAD), (I,)).of(tile(32, 6), layout, (I, 5 - K), {K: range(6)}, writes=True)
    assert [5, 4, 3, 2, 1, 0] == [int(evaluate(expr, {K: k})) for k in range(6)]


def test_fully_replicated_elements_are_accessible_anywhere():
    layout = replicated((3, 4), 32)
    assert is_replicated(layout)
    place = replicated_register_index(layout, (K, as_expr(2)))
    assert [2, 6, 10] == [int(evaluate(place, {K: k})) for k in range(3)]
    assert 0 == int(evaluate(replicated_register_index(replicated((1,), 32), (as_expr(0),)), {}))
    partition = LoopPartition(fragment((3,), [Mode(32, (0,))], [Mode(3, (1,))]), THREAD)
    expr = RegisterIndices(partition, (I,)).of(tile(3, 4), layout, (I, I), {}, writes=True)
    assert [0, 5, 10] == [int(evaluate(expr, {partition.digits[0].var: u})) for u in range(3)]


def test_elements_of_other_threads_are_refused():
    nest = fragment((8,), [Mode(8, (1,))], [])
    register_indices = RegisterIndices(LoopPartition(nest, THREAD), (I,))
    with pytest.raises(CompilerBug, match="another one holds"):
        register_indices.of(tile(8), nest, (7 - I,), {}, writes=False)
    with pytest.raises(CompilerBug, match="more than loop variables"):
        register_indices.of(tile(8), nest, (K,), {}, writes=False)


def test_a_store_that_misses_a_replica_is_refused():
    nest = fragment((4,), [Mode(4, (1,)), Mode(2, (4,))], [])  # threads 4 to 7 run nothing
    copies = fragment((4,), [Mode(4, (1,)), Mode(2, (0,))], [])
    with pytest.raises(CompilerBug, match="not every thread"):
        RegisterIndices(LoopPartition(nest, THREAD), (I,)).of(tile(4), copies, (I,), {}, writes=True)


def test_identity_of_a_layout_with_itself():
    layout = fragment((16, 8), [Mode(4, (0, 2)), Mode(8, (1, 0))], [Mode(2, (0, 1)), Mode(2, (8, 0))])
    assert layout.normalized == element_layout(identity((16, 8)), layout)
