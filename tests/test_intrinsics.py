from tilelang import intrinsics
from tilelang.layout import make_mma_swizzle_layout


def test_the_published_place_of_the_swizzle() -> None:
    assert intrinsics.make_mma_swizzle_layout is make_mma_swizzle_layout
