"""Programs with fresh names compute the same and share nothing that they define."""

from specialized import launch_of

import tilelang.language as T
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Alloc
from tilelang.ir.visit import walk
from tilelang.transforms.fresh_names import with_fresh_names


def test_renamed_programs_share_only_what_comes_from_outside():
    @T.prim_func
    def main(A: T.Tensor((8, 8), "int32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_fragment((8,), "int32")
            view = T.reshape(total, (2, 4))
            T.clear(total)
            for k in T.serial(4):
                row = A[k, 0]
                for i in T.Parallel(8):
                    total[i] += row
                old = T.atomic_add(A[0, 0], view[0, 0], return_prev=True)
                A[1, 1] = old

    body = launch_of(main).body
    other = with_fresh_names(body)
    assert to_text(body) == to_text(other)
    own = [{s.buffer for s in walk(program) if isinstance(s, Alloc)} for program in (body, other)]
    assert not own[0] & own[1]
    views = [s.buffer for s in walk(other) if isinstance(s, Alloc) and s.buffer.view_of is not None]
    assert all(view.view_of in own[1] for view in views)
