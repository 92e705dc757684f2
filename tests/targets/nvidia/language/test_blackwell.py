import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import NoLowering
from tilelang.targets.nvidia.language.blackwell import INSTRUCTIONS


def product(name: str):
    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            c = T.alloc_tmem([128, 128], "float32") if name == "alloc_tmem" else T.alloc_fragment((128, 128), "float32")
            T.copy(A, a)
            if name != "alloc_tmem":
                getattr(T, name)(a, a, c, anything=1)
            T.copy(c, C)

    return main


@pytest.mark.parametrize("name", ["alloc_tmem", *INSTRUCTIONS])
def test_a_program_stages_and_is_refused_by_target_and_instruction(name: str) -> None:
    func = product(name)
    for arch in ("sm_90a", "sm_100a"):
        with pytest.raises(NoLowering) as caught:
            tilelang.compile(func, target={"kind": "cuda", "arch": arch})
        assert (
            f"T.{name}: there is no lowering for {arch}, nor for another target of this version",
            "write T.gemm: the compiler chooses the matrix instruction",
        ) == (caught.value.message, caught.value.hint)
        assert caught.value.loc.file == __file__


def test_the_cpu_and_the_reference_refuse_it_as_well() -> None:
    for options in ({"target": "cpu"}, {"target": "cuda", "execution_backend": "reference"}):
        with pytest.raises(NoLowering, match=r"T\.tcgen05_mma"):
            kernel = tilelang.compile(product("tcgen05_mma"), **options)
            kernel(*[None] * 2)


def test_outside_of_a_kernel_they_say_that_first() -> None:
    with pytest.raises(tilelang.StagingError, match=r"T\.tcgen05_mma: may only be used inside a kernel"):
        T.tcgen05_mma()
