import pytest
from warp_alone import WarpAlone, run

from tilelang.errors import NoLowering
from tilelang.language.copies import EVICTIONS
from tilelang.targets.nvidia.isa.cache_policy import l2_policy


def test_each_policy_has_a_number_of_its_own():
    values = [int(run(l2_policy(eviction), WarpAlone())[0]) for eviction in EVICTIONS]
    assert 3 == len(set(values))
    for eviction, value in zip(EVICTIONS, values, strict=True):
        assert f"return {value:#x}ull;" in l2_policy(eviction).helpers["cuda"].text


def test_other_policies_are_refused():
    with pytest.raises(NoLowering, match="L2 policy: 'sometimes' is none of evict_normal, evict_first, evict_last"):
        l2_policy("sometimes")
