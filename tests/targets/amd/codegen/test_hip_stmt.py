import pytest
from hip_text import GENERATIONS, assembly_of, needs_clang, printed
from thread_kernels import buffer, kernel

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.errors import NoLowering
from tilelang.ir.expr import Var, as_expr, const
from tilelang.ir.stmt import Atomic, AtomicOp
from tilelang.targets.amd.codegen.hip import emit


def test_results_of_atomics_have_names() -> None:
    a, before = buffer("A", (4,), "int32"), Var("before", INT32)
    text = emit(kernel("test", [a], [Atomic(AtomicOp.ADD, a, (as_expr(0),), const(1, INT32), before)])).text
    call = "__hip_atomic_fetch_add(A, (int32_t)(1), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)"
    assert f"const int32_t before = {call};" in text


def test_printing_is_refused() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=64):
            T.print(A[0])

    with pytest.raises(NoLowering, match="T.print: HIP text that needs no header has no printf") as caught:
        printed(main, "gfx942")
    assert __file__ == caught.value.loc.file


def test_instructions_of_other_gpus_are_refused() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            T.sync_threads(1, 64)
            A[0] = 1

    with pytest.raises(NoLowering, match="T.bar_sync: is an instruction of other GPUs, and has no HIP text") as caught:
        printed(main, "gfx1100")
    assert __file__ == caught.value.loc.file


@needs_clang
@pytest.mark.parametrize("arch", GENERATIONS)
def test_a_failed_assertion_ends_the_wave(arch: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            T.device_assert(A[t] >= 0, "no negative numbers")
            A[t] = A[t] + 1

    source = printed(main, arch)
    assert "tl_record_failure(tl_failed, 1);" in source.text
    assert "failure" == source.launches[0].arguments[-1].kind
    assert ["no negative numbers"] == [message for message, _ in source.asserts]
    text = assembly_of(source.text, arch)
    assert 2 <= text.count("s_endpgm\n") and "cmpswap" in text


@needs_clang
def test_a_failed_assertion_ends_no_wave_that_other_blocks_wait_for() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 64), "int32")):
        with T.Kernel(4, threads=64) as bx:
            t = T.get_thread_binding()
            T.device_assert(A[bx, t] >= 0, "no negative numbers")
            T.sync_grid()
            A[bx, t] = A[bx, t] + 1

    text = printed(main, "gfx942").text
    assert "tl_record_failure(tl_failed, 1);" in text and "endpgm" not in text
    assert 1 == assembly_of(text, "gfx942").count("s_endpgm\n")
