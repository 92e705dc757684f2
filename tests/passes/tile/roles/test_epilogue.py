"""Results leave through shared memory, whose next writer waits until the last ones are read."""

from roles import TABLE, context, launch_of, product

import tilelang.language as T
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Seq
from tilelang.passes.tile.choose_schedule import Roles
from tilelang.passes.tile.roles.epilogue import Leave
from tilelang.passes.tile.roles.rings import flat


def leaving(func):
    launch = flat(launch_of(func))
    exits = Roles(TABLE, context()).exits(launch, 128)
    return exits, to_text(Leave(exits).visit(launch.body) or Seq(()))


def lines(text, word):
    return [line.strip() for line in text.splitlines() if word in line]


def test_a_fragment_goes_through_a_tile_of_the_result_s_dtype():
    (made,), text = leaving(product(256, 256, 256))
    assert ("C_l_staging", "float16", (128, 128)) == (
        made.staging.name,
        str(made.staging.dtype),
        made.staging.static_shape,
    )
    after = text[text.index("tma_store_wait_read_0()") :].splitlines()
    assert "T.copy(C_l, C_l_staging)" == after[1].strip()
    assert "T.copy(C_l_staging, C[" in after[2]
    assert "pending=True" in after[2]


def test_tensors_that_the_copy_engine_cannot_write_are_left_alone():
    exits, text = leaving(product(256, 250, 256))
    assert () == exits
    assert "tma_store_wait" not in text


def own_tile(reads_it=False):
    @T.prim_func
    def main(A: T.Tensor((256, 64), "float16"), C: T.Tensor((256, 64), "float16")):
        with T.Kernel(4, threads=128) as bx:
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            C_s = T.alloc_shared((64, 64), "float16")
            T.copy(A[bx * 64, 0], A_s)
            T.clear(C_l)
            T.gemm(A_s, A_s, C_l)
            T.copy(C_l, C_s)
            T.copy(C_s, C[bx * 64, 0])
            if reads_it:
                C[0, 0] = C_s[0, 0]

    return main


def test_the_user_s_own_tile_is_taken_where_it_serves_nothing_else():
    (made,), text = leaving(own_tile())
    assert "C_s" == made.staging.name
    assert made.writer is not None
    assert "alloc_shared" in text  # A_s
    assert [] == lines(text, "C_s = ")
    after = text[text.index("tma_store_wait_read_0()") :].splitlines()
    assert "T.copy(C_l, C_s)" == after[1].strip()
    assert "pending=True" in after[2]
    exits, text = leaving(own_tile(reads_it=True))
    assert () == exits
    assert "pending" not in text
