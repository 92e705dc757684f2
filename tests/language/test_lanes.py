import pytest

import tilelang.language as T
from tilelang.errors import ProgramError, ProgramTypeError
from tilelang.ir.expr import as_expr
from tilelang.language.lanes import FULL_MASK, as_predicate, lane_mask, shuffled


def test_masks_have_32_bits():
    assert ("uint32", FULL_MASK) == (lane_mask(-1).dtype, lane_mask(-1).value)
    assert "uint32" == lane_mask(as_expr(1) + 1).dtype


def test_predicates_are_integers_or_truth_values():
    assert "bool" == as_predicate("T.vote", as_expr(3)).dtype
    with pytest.raises(ProgramTypeError, match="T.vote: requires an integer or boolean predicate, got float32"):
        as_predicate("T.vote", as_expr(1.5))


def test_shuffles_have_few_widths(stager):
    with pytest.raises(ProgramError, match="T.take: width is 12"):
        shuffled("T.take", "up", T.float32(1), 1, 12, FULL_MASK)
