import inspect
import typing

import tilelang
import tilelang.language as T
from tilelang.jit import JITImpl
from tilelang.jit.jit_impl import BaseKernelAdapter


@tilelang.jit(out_idx=[-1], target="cpu", pass_configs={"tl.disable_wgmma": True})
def lazy(n: int = 8):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(A, B)

    return main


@tilelang.jit(target="cpu")
def eager(A, block: int = 8):
    n = T.const("n")
    A: T.Tensor((n,), "float32")
    B = T.empty((n,), "float32")
    with T.Kernel(1, threads=32):
        T.copy(A, B)
    return B


def test_functions_of_both_styles_are_of_one_class() -> None:
    assert [True, True] == [isinstance(function, JITImpl) for function in (lazy, eager)]
    assert ["lazy", "eager"] == [lazy.mode, eager.mode]
    assert not isinstance(lambda: None, JITImpl)


def test_the_class_stands_in_annotations() -> None:
    def use(function: JITImpl[typing.Any, typing.Any]) -> JITImpl[...]:
        return function

    assert JITImpl is typing.get_origin(inspect.signature(use).parameters["function"].annotation)


def test_what_the_decorator_was_given_can_be_read() -> None:
    assert ([-1], "cpu", {"tl.disable_wgmma": True}) == (lazy.out_idx, lazy.target, lazy.pass_configs)
    assert (None, "cpu", None) == (eager.out_idx, eager.target, eager.pass_configs)
    assert ["lazy", "eager"] == [lazy.func.__name__, eager.func.__name__]
    assert ["n"] == list(lazy.signature.parameters)


def test_compiling_gives_the_kernel_and_its_source() -> None:
    assert lazy.compile(n=16).get_kernel_source() == lazy.get_kernel_source(n=16)
    assert "eager" in eager.get_kernel_source(n=16)


def test_the_published_adapter_class_may_be_patched() -> None:
    assert [[], [-1], [0, 2]] == [BaseKernelAdapter()._legalize_result_idx(idx) for idx in (None, -1, (0, 2))]
