"""What the statements of a pipelined loop touch, and which of them fill a tile as a whole."""

import tilelang.language as T
from tilelang.ir.stmt import For
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.tile import inline_bindings
from tilelang.schedule.loop_body import LoopBody, fills


def body_of(func):
    func = inline_bindings.PASS.run(func, PassContext())
    return LoopBody(next(s for s in walk(func.body) if isinstance(s, For) and s.pipeline is not None))


@T.prim_func
def kernel(A: T.Tensor((8, 64), "float32"), index: T.Tensor((8,), "int32"), C: T.Tensor((8, 8), "float32")):
    with T.Kernel(1, threads=32):
        whole, part, cleared = (T.alloc_shared((8, 8), "float32") for _ in range(3))
        for k in T.Pipelined(8, num_stages=2):
            row = index[k]
            column = row * 2
            T.copy(A[0, k * 8], whole)
            T.copy(A[0:4, k * 8 : k * 8 + 8], part[0:4, :])
            T.clear(cleared)
            for i, j in T.Parallel(8, 8):
                C[i, j] = whole[i, j] + part[i, j] + cleared[i, j] + T.float32(column)


def test_statements_are_numbered_and_know_what_they_touch():
    body = body_of(kernel)
    assert 4 == len(body.statements)
    touched = [sorted((b.name, write) for b, _, write in touching) for touching in body.touched]
    assert {"A"} == {name for name, write in touched[0] if not write}
    assert 1 == sum(write for _, write in touched[1])
    assert {"index"} < {name for name, write in touched[3] if not write}  # through the names
    assert ["row", "column"] == [name.name for name in body.bound_variables(body.statements[3])]
    assert [] == body.bound_variables(body.statements[2])


def test_a_tile_is_filled_first_by_whoever_writes_all_of_it_before_others_touch_it():
    body = body_of(kernel)
    shared = [b for b in body.storages if b.scope.value.startswith("shared")]
    assert [0, None, 2] == [body.fills_first(b) for b in shared]
    assert [True, False, False, False] == [fills(s, shared[0]) for s in body.statements]
