"""The C++ helpers are self-contained."""

import numpy as np
import pytest
from harness import run_everywhere

import tilelang.language as T
from tilelang.isa.intrinsic import ordered_helpers
from tilelang.targets.cpu.codegen.cpp_helpers import HELPERS


@pytest.mark.parametrize("name", sorted(HELPERS))
def test_a_helper_defines_its_name_after_its_dependencies(name):
    helpers = ordered_helpers([HELPERS[name]])
    assert name == helpers[-1].name
    assert f" {name}(" in helpers[-1].text
    assert all(needed.name in helpers[-1].text for needed in helpers[:-1])


def test_a_helper_is_written_once_and_only_if_used():
    import tilelang

    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                A[i] = A[i] // 3 + A[i] // 5

    text = tilelang.compile(main, target="cpu", compile_flags="-O1").get_kernel_source()
    assert 1 == text.count("static inline T tl_floordiv(")
    assert "tl_shl" not in text
    run_everywhere(main, np.arange(-4, 4, dtype=np.int32), compile_flags="-O1")
