"""Statements on one version of a buffer name it by a first index; operators count dimensions on."""

import numpy as np
from harness import run_everywhere

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Var
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Alloc
from tilelang.ir.visit import walk
from tilelang.transforms.versions import OnVersion, versioned


def test_every_kind_of_use_names_the_version():
    @T.prim_func
    def main(A: T.Tensor((8, 8), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            A_s = T.alloc_shared((8, 8), "int32")
            total = T.alloc_fragment((8,), "int32")
            T.copy(A, A_s)
            A_s[1, 2] = A_s[3, 4]
            T.atomic_add(A_s[5, 6], 7)
            T.reduce_sum(A_s, total, dim=1)
            T.copy(total, B)

    (old,) = (s.buffer for s in walk(main.body) if isinstance(s, Alloc) and s.buffer.scope is Scope.SHARED)
    new = versioned(old, 3)
    assert (3, 8, 8) == new.static_shape
    text = to_text(OnVersion({old: (new, Var("stage", INT32, index=True))}).visit(main.body))
    uses = ["A_s_1[stage, :, :]", "A_s_1[stage, 1, 2] = A_s_1[stage, 3, 4]", "A_s_1[stage, 5, 6]", "dim=2"]
    missing = [use for use in uses if use not in text]
    assert [] == missing, text


def test_operators_on_lines_go_along_the_same_dimension_of_a_version():
    @T.prim_func
    def main(A: T.Tensor((4, 5, 24), "float16"), B: T.Tensor((4, 5), "float16"), C: T.Tensor((4, 5, 24), "float16")):
        with T.Kernel(1, threads=64):
            A_s = T.alloc_shared((5, 24), "float16")
            most = T.alloc_shared((5,), "float16")
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[k, 0, 0], A_s)
                T.reduce(A_s, most, lambda a, b: T.max(a, b), dim=1)
                T.copy(most, B[k, 0])
                T.cumsum(A_s, A_s, dim=1)
                T.copy(A_s, C[k, 0, 0])

    given = np.random.default_rng(0).integers(-4, 5, (4, 5, 24)).astype(np.float16)
    run_everywhere(main, given, np.zeros((4, 5), np.float16), np.zeros_like(given))
