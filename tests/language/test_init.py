import pytest

import tilelang.language as T
from tilelang.errors import ProgramError, UnknownName

# Every name that docs/ and the programs written for such languages use.
NAMES = """
prim_func macro Kernel block const empty Tensor Buffer StridedTensor ptr dyn dynamic symbolic Var dtype
serial unroll vectorized Parallel Pipelined Persistent grid pipeline parallel pipelined
alloc_shared alloc_fragment alloc_local alloc_var alloc_reducer alloc_global alloc_barrier reshape view
copy async_copy tma_copy transpose c2d_im2col im2col gemm wgmma_gemm wait_wgmma gemm_sp fill clear reduce
reduce_sum reduce_max reduce_min reduce_abssum reduce_absmax reduce_bitand reduce_bitor reduce_bitxor
cumsum cummax reducer_init reducer_update finalize_reducer warp_reduce_sum warp_reduce_max atomic_add atomic_max atomic_min atomic_load
atomic_store atomic_addx2 atomic_addx4 print device_assert if_then_else Select any_of all_of
max min abs clamp exp exp2 exp10 log log2 log10 log1p sqrt rsqrt pow tanh sigmoid erf sin cos tan floor ceil round
trunc fma isnan isinf isfinite infinity max_value min_value cast Cast reinterpret floordiv floormod truncdiv truncmod
ceildiv shift_left shift_right bitwise_and bitwise_or bitwise_xor bitwise_not popcount dp4a __exp __log
rng_init rng_rand annotate_layout use_swizzle annotate_safe_value annotate_l2_hit_ratio func_attr GemmWarpPolicy
Layout make_swizzled_layout evaluate get_thread_binding sync_threads call_extern import_source ws attr
float16 bfloat16 float32 float64 int8 uint8 int32 int64 bool float8_e4m3fn float8_e5m2 float4_e2m1fn float16x2 half
""".split()


def test_the_names_exist() -> None:
    assert set(NAMES) <= set(T.__all__)
    assert [] == [name for name in NAMES if not hasattr(T, name)]


def test_all_names_are_there_and_documented() -> None:
    assert len(T.__all__) == len(set(T.__all__))
    undocumented = [name for name in T.__all__ if not getattr(getattr(T, name), "__doc__", None)]
    assert [] == undocumented


def test_an_unknown_name_is_told_with_the_nearest_one() -> None:
    with pytest.raises(UnknownName) as caught:
        _ = T.gemmm
    assert "T.gemmm: there is no such name" == caught.value.message
    assert "did you mean T.gemm?" == caught.value.hint
    assert isinstance(caught.value, ProgramError)


def test_python_may_ask_whether_a_name_exists() -> None:
    assert not hasattr(T, "no_such_thing")
    assert not hasattr(T, "__wrapped__")


def test_everything_can_be_imported_at_once() -> None:
    names: dict[str, object] = {}
    exec("from tilelang.language import *", names)
    assert T.copy is names["copy"]
