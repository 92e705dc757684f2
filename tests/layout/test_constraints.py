from tilelang.layout.constraints import AccessLayout, Reason
from tilelang.layout.digits import identity


def test_a_use_is_taken_for_a_store_unless_it_says_otherwise() -> None:
    use = AccessLayout("x", "loop", identity((4,)), Reason("T.Parallel"))
    assert (True, 0) == (use.writes, use.free)
