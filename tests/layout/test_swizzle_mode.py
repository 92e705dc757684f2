from tilelang.layout import SwizzleMode

MODES = (SwizzleMode.NONE, SwizzleMode.SWIZZLE_32B, SwizzleMode.SWIZZLE_64B, SwizzleMode.SWIZZLE_128B)


def test_what_the_modes_say_of_themselves() -> None:
    assert [1, 32, 64, 128] == [mode.swizzle_byte_size() for mode in MODES]
    assert [1, 2, 4, 8] == [mode.swizzle_atom_size() for mode in MODES]
    assert [128, 256, 512, 1024] == [mode.smem_alignment() for mode in MODES]
    assert [0, 3, 2, 1] == [mode.wgmma_layout_type() for mode in MODES]


def test_each_mode_knows_itself() -> None:
    for index, mode in enumerate(MODES):
        asked = [mode.is_none(), mode.is_swizzle_32b(), mode.is_swizzle_64b(), mode.is_swizzle_128b()]
        assert [position == index for position in range(4)] == asked
