import pytest
from warp_alone import WarpAlone, run

from tilelang.errors import NoLowering
from tilelang.isa.nvidia.cache_policy import EVICTIONS, l2_policy, policy_number
from tilelang.isa.nvidia.cp_async import cp_async


def test_each_policy_has_a_number_of_its_own():
    numbers = [policy_number(eviction, "a copy") for eviction in EVICTIONS]
    assert 3 == len(set(numbers))
    assert numbers == [int(run(l2_policy(eviction), WarpAlone())[0]) for eviction in EVICTIONS]


def test_copies_are_given_the_number_itself():
    # ptxas loses a `createpolicy` before a `cp.async`, which then traps
    for eviction in EVICTIONS[1:]:
        number = f"{policy_number(eviction, 'a copy'):#x}"
        for instruction in (cp_async(16, eviction), l2_policy(eviction)):
            text = instruction.helper["cuda"].text
            assert number in text and "createpolicy" not in text


def test_other_policies_are_refused():
    with pytest.raises(NoLowering, match="L2 policy: knows evict_normal, evict_first, evict_last, not 'sometimes'"):
        l2_policy("sometimes")
