from collections.abc import Callable

import pytest

import tilelang.language as T
from tilelang.errors import OptionError, ProgramError, StagingError
from tilelang.ir.expr import Const
from tilelang.language.proxy import BufferProxy
from tilelang.language.stage import Stager, staging

Tensor = Callable[..., BufferProxy]


def test_safe_values_have_the_dtype_of_the_tensor(tensor: Tensor, stager: Stager) -> None:
    a = tensor("A", (4,), "float16")
    T.annotate_safe_value({a: -T.infinity("float32")})
    assert stager.hints is not None
    value = stager.hints.safe_values[a.buffer]
    assert isinstance(value, Const)
    assert (float("-inf"), "float16") == (value.value, value.dtype)
    with pytest.raises(ProgramError, match="'shared' is in scope 'shared.dyn'; only loads from global"):
        T.annotate_safe_value({T.alloc_shared((4,)): 0})


def test_hit_ratios_lie_between_0_and_1(tensor: Tensor, stager: Stager) -> None:
    a = tensor("A", (4,))
    T.annotate_l2_hit_ratio({a: 0.5})
    assert stager.hints is not None
    assert 0.5 == stager.hints.l2_hit_ratios[a.buffer]
    with pytest.raises(ProgramError, match="is not a number between 0 and 1"):
        T.annotate_l2_hit_ratio({a: 2})


def test_swizzled_walks(stager: Stager) -> None:
    assert stager.hints is not None
    T.use_swizzle(10, enable=False)
    assert stager.hints.swizzle is None
    T.use_swizzle(panel_size=10, order="col")
    assert (10, "column") == stager.hints.swizzle
    with pytest.raises(ProgramError, match="panel_size is 0, not a positive int"):
        T.use_swizzle(0)
    with pytest.raises(ProgramError, match="order is 'diagonal'"):
        T.use_swizzle(4, order="diagonal")


def test_other_walks_are_refused_or_left_out(stager: Stager) -> None:
    assert stager.hints is not None
    T.use_swizzle(8, "mlx")
    assert stager.hints.swizzle is None
    for arguments in ((0,), (4, "diagonal")):
        with pytest.raises(ValueError):
            T.use_swizzle(*arguments)


def test_what_is_said_of_the_whole_function(tensor: Tensor, stager: Stager) -> None:
    T.annotate_restrict_buffers(tensor("A", (4,)), tensor("B", (4,)))
    T.annotate_compile_flags("-O1")
    T.annotate_compile_flags(("-O2", "-g"))
    T.annotate_pass_configs({"tl.enable_fast_math": True})
    T.annotate_pass_configs({"tl.enable_fast_math": False, "tl.disable_tma_lower": True})
    assert {
        "tilelang_compile_flags": ["-O1", "-O2", "-g"],
        "tilelang_pass_configs": {"tl.enable_fast_math": False, "tl.disable_tma_lower": True},
    } == stager.attrs
    with pytest.raises(TypeError, match="T.annotate_compile_flags: 3 is neither text nor a list of texts"):
        T.annotate_compile_flags(3)  # type: ignore[arg-type]
    with pytest.raises(OptionError):
        T.annotate_pass_configs({"tl.no_such_switch": True})
    with pytest.raises(ProgramError, match="needs a whole buffer"):
        T.annotate_restrict_buffers(1)  # type: ignore[arg-type]


def test_occupancy(stager: Stager) -> None:
    assert stager.hints is not None
    T.annotate_min_blocks_per_sm(2)
    assert 2 == stager.hints.min_blocks_per_sm
    with pytest.raises(ProgramError, match="is not a positive int"):
        T.annotate_min_blocks_per_sm(0)


def test_function_attributes(stager: Stager) -> None:
    T.func_attr({"global_symbol": "main"})
    assert {"global_symbol": "main"} == stager.attrs
    with pytest.raises(ProgramError, match="T.func_attr: 3 is not a name"):
        T.func_attr({3: 4})  # type: ignore[dict-item]


def test_annotations_stand_inside_of_a_kernel() -> None:
    with staging(Stager()), pytest.raises(StagingError) as caught:
        T.use_swizzle(4)
    assert "T.use_swizzle: is about one kernel, but stands outside of `with T.Kernel(...)`" == caught.value.message


def test_hints_of_older_programs_are_ignored(stager) -> None:
    with T.attr(0, "pragma_unroll_explicit", True):
        pass
    T.attr("default", "threadblock_swizzle_pattern", "f")
    T.attr(0, "thread_extent", 128)
    assert [] == stager.statements


def test_the_name_of_a_function_can_be_given() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        T.func_name("renamed")
        T.func_attr({"tir.noalias": True})
        with T.Kernel(1):
            A[0] = 1

    assert ("renamed", True) == (main.name, dict(main.attributes)["tir.noalias"])
    with pytest.raises(ProgramError, match="T.func_attr: 'a b' is no name of a function"):

        @T.prim_func
        def other(A: T.Tensor((4,), "float32")):
            T.func_name("a b")
