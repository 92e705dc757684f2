import pytest

import tilelang.language as T
from tilelang.errors import ProgramTypeError
from tilelang.ir.expr import as_expr
from tilelang.language.lanes import as_predicate, lane_mask, shuffled
from tilelang.targets.gpu.isa.lanes import FULL_MASK


def test_masks_have_32_bits():
    assert ("uint32", FULL_MASK) == (lane_mask(-1).dtype, lane_mask(-1).value)
    assert "uint32" == lane_mask(as_expr(1) + 1).dtype


def test_predicates_are_integers_or_truth_values():
    assert "bool" == as_predicate("T.vote", as_expr(3)).dtype
    with pytest.raises(ProgramTypeError, match="T.vote: requires an integer or boolean predicate, got float32"):
        as_predicate("T.vote", as_expr(1.5))


def test_truth_values_are_shuffled_as_numbers(stager):
    taken = shuffled("T.take", "up", T.float32(1), 1)
    assert "float32" == taken.dtype
    assert "bool" == shuffled("T.take", "up", as_expr(True), 1).dtype
    assert ["shuffle_up_float32", "shuffle_up_int32"] == [stmt.routine.name for stmt in stager.statements]
