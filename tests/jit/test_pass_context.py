import threading

import pytest

import tilelang.language as T
from tilelang.errors import OptionError
from tilelang.jit.compile import lower
from tilelang.transform import PassConfigKey, PassContext, get_pass_context, simplify_prim_func


def product(M: int = 64):
    @T.prim_func
    def main(
        A: T.Tensor((M, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((M, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((M, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((M, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(c, C)

    return main


def test_configurations_hold_for_lower_inside_of_the_context() -> None:
    hopper = {"kind": "cuda", "arch": "sm_90a"}
    assert "wgmma" in str(lower(product(), hopper))
    with PassContext(opt_level=3, config={PassConfigKey.TL_DISABLE_WGMMA: True}):
        assert "wgmma" not in str(lower(product(), hopper))
    assert "wgmma" in str(lower(product(), hopper))


def test_the_innermost_context_is_current() -> None:
    assert {} == get_pass_context().config
    with PassContext(config={"tl.disable_wgmma": True}) as outer:
        assert outer is get_pass_context()
        with PassContext() as inner:
            assert inner is PassContext.current()
        assert outer is get_pass_context()
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.append(get_pass_context().config))
        thread.start()
        thread.join()
        assert [{}] == found
    assert {} == get_pass_context().config


def test_an_unknown_key_is_an_error() -> None:
    with pytest.raises(OptionError, match=r"unknown key 'tl\.wgmma_off'"):
        PassContext(config={"tl.wgmma_off": True})


def test_a_simplified_function_is_the_function() -> None:
    func = product()
    assert func is simplify_prim_func(func)
