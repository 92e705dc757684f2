"""How many registers of a thread fragments and operands may take."""

import pytest
from specialized import launch_of

import tilelang.language as T
from tilelang.targets.nvidia.fragment_registers import free_registers, registers_for_fragments
from tilelang.targets.nvidia.machines import MACHINES

SM_80 = MACHINES["sm_80"]


@pytest.mark.parametrize(
    ("threads", "blocks", "registers"), [(128, 1, 208), (256, 1, 208), (320, 1, 168), (512, 1, 128), (1024, 1, 64), (256, 2, 128)]
)
def test_the_register_file_limits_large_blocks_and_several_at_once(threads, blocks, registers):
    assert registers == registers_for_fragments(threads, SM_80, blocks)


@pytest.mark.parametrize(("threads", "blocks", "registers"), [(128, 1, 208 - 65), (512, 1, 128 - 17), (128, 4, 128 - 65)])
def test_fragments_leave_the_rest_and_views_take_none(threads, blocks, registers):
    @T.prim_func
    def main(A: T.Tensor((64, 128), "float32")):
        with T.Kernel(1, threads=threads):
            T.annotate_min_blocks_per_sm(blocks)
            tile, row = T.alloc_fragment((64, 128), "float32"), T.alloc_fragment((64,), "float32")
            view, shared = T.reshape(tile, (128, 64)), T.alloc_shared((64, 128), "float32")
            T.clear(row)
            T.copy(A, shared)
            T.copy(shared, tile)
            view[0, 0] = row[0]
            T.copy(tile, A)

    assert registers == free_registers(launch_of(main), SM_80)
