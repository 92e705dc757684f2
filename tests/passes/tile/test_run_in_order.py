from typing import Any

import tilelang.language as T
from tilelang.ir.stmt import For, ForKind
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.tile.run_in_order import PASS
from tilelang.targets.target import Target


def test_pipelined_loops_become_serial() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as bx:
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k * 16], B[k * 16 : k * 16 + 16])

    loops: list[Any] = [s for s in walk(main.body) if isinstance(s, For)]
    assert [ForKind.PIPELINED] == [loop.kind for loop in loops]
    made = PASS.run(main, PassContext(Target("cpu")))
    (loop,) = [s for s in walk(made.body) if isinstance(s, For)]
    assert (ForKind.SERIAL, None) == (loop.kind, loop.pipeline)
    assert loops[0].body is loop.body
