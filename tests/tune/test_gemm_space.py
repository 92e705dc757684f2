import pytest
from hypothesis import given
from hypothesis import strategies as st
from tunable import subject_of

import tilelang.language as T
from tilelang.errors import OptionError
from tilelang.options import CompileOptions
from tilelang.targets.nvidia.machines import MACHINES
from tilelang.targets.target import Target
from tilelang.tune.gemm_space import NAMES, default_configs, gemm_configs
from tilelang.tune.space import configurations

HOPPER = Target("cuda", "sm_90a")
TARGETS = [Target("cpu"), *(Target("cuda", arch) for arch in MACHINES)]


def gemm(M, N, K, block_M=None, block_N=None, block_K=None, num_stages=None, threads=None):
    @T.prim_func
    def gemm(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_s = T.alloc_shared((block_M, block_K), "float16")
            B_s = T.alloc_shared((block_K, block_N), "float16")
            C_f = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_f)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_s)
                T.copy(B[k * block_K, bx * block_N], B_s)
                T.gemm(A_s, B_s, C_f)
            T.copy(C_f, C[by * block_M, bx * block_N])

    return gemm


@given(st.sampled_from(TARGETS), st.sets(st.sampled_from(NAMES), min_size=1), st.integers(1, 9000), st.integers(1, 9000))
def test_configurations_have_the_requested_tunables(target: Target, names: set[str], m: int, n: int) -> None:
    found = gemm_configs(sorted(names), target, m, n, 4096)
    assert found
    assert all(names == set(row) - {"pass_configs"} for row in found)
    for row in found:
        CompileOptions.from_user(row.get("pass_configs")).schedule  # refuses unknown switches and values


def test_on_hopper_there_are_about_forty() -> None:
    found = configurations(gemm_configs, subject_of(gemm, 4096, 4096, 4096, options=_options()))
    assert 40 <= len(found) <= 45
    assert {"block_M": 128, "block_N": 256, "block_K": 64, "num_stages": 4, "threads": 256} in found


def _options():
    from tilelang.jit.options import JitOptions

    return JitOptions(target="sm_90a")


@pytest.mark.parametrize(
    ("sizes", "tiles"),
    [
        ((8192, 8192, 8192), {(128, 256), (256, 128), (256, 192), (128, 224), (128, 192), (192, 128), (192, 192)}),
        ((1024, 1024, 1024), {(64, 128), (128, 64), (64, 64), (128, 128)}),
        ((64, 8192, 8192), {(64, 64), (64, 128)}),
        ((16, 8192, 8192), {(16, 64), (16, 128)}),
        ((24, 8192, 8192), {(32, 64), (32, 128)}),
    ],
)
def test_the_first_configurations_suit_the_sizes(sizes: tuple[int, int, int], tiles: set[tuple[int, int]]) -> None:
    found = gemm_configs(("block_M", "block_N"), HOPPER, *sizes)
    assert {(row["block_M"], row["block_N"]) for row in found[:3]} <= tiles


def test_clusters_split_k_only_with_fewer_tiles_than_multiprocessors() -> None:
    def shared(*sizes: int) -> set[tuple[int, ...]]:
        rows = gemm_configs(NAMES, HOPPER, *sizes)
        splits = [(row, row.get("pass_configs", {}).get("tl.split", 1)) for row in rows]
        return {(row["block_M"], row["block_N"], split) for row, split in splits if split > 1}

    assert {(64, 128, 2), (64, 256, 2)} == shared(64, 8192, 8192)
    assert {(64, 64, 2), (64, 128, 2), (128, 64, 2), (128, 128, 2), (128, 128, 4)} <= shared(512, 512, 8192)
    assert set() == shared(4096, 4096, 4096) == shared(64, 8192, 256)
    assert not any("tl.split" in row.get("pass_configs", {}) for row in gemm_configs(NAMES, HOPPER))


def test_tiles_form_whole_clusters() -> None:
    def clusters(m: int, n: int) -> set[tuple[int, int]]:
        configs = (c.get("pass_configs", {}) for c in gemm_configs(target=HOPPER, M=m, N=n, K=4096))
        return {switches["tl.cluster"] for switches in configs if "tl.cluster" in switches}

    assert {(1, 2), (2, 1)} == clusters(4096, 4096)
    assert (1, 2) not in clusters(128, 4096)
    assert (2, 1) not in clusters(4096, 128)


def test_blocks_store_their_sums_where_they_keep_the_machine_busy() -> None:
    def parts(*sizes: int) -> set[tuple[int, ...]]:
        rows = gemm_configs(NAMES, HOPPER, *sizes)
        found = [(row, row.get("pass_configs", {}).get("tl.workspace_split", 1)) for row in rows]
        return {(row["block_M"], row["block_N"], n) for row, n in found if n > 1}

    assert {(64, 64, n) for n in (12, 16, 24, 32)} <= parts(64, 256, 16384)
    assert (128, 128, 8) in parts(512, 512, 16384)
    assert not {(128, 128, 2), (128, 128, 12)} & parts(512, 512, 16384)  # too few blocks, and too many
    assert set() == parts(4096, 4096, 4096) == parts(256, 256, 256)


def test_some_configuration_is_left_however_small_the_sizes() -> None:
    assert all(gemm_configs(NAMES, HOPPER, *sizes) for sizes in ((1, 1, 1), (100, 20, 16), (64, 8, 64)))


def test_tiles_are_not_mostly_empty() -> None:
    assert {16} == {row["block_M"] for row in gemm_configs(("block_M",), HOPPER, 16, 8192, 8192)}
    assert {32} == {row["block_M"] for row in gemm_configs(("block_M",), HOPPER, 17, 8192, 8192)}
    assert {64} == {row["block_M"] for row in gemm_configs(("block_M",), HOPPER, 40, 8192, 8192)}


def test_given_tile_sizes_filter_the_configurations() -> None:
    found = gemm_configs(("block_N", "num_stages"), HOPPER, block_M=256)
    assert {128, 192} == {row["block_N"] for row in found}
    assert gemm_configs(("block_N",), HOPPER, block_M=100)  # no such row: all of them
    assert [{}] == gemm_configs((), HOPPER)
    assert [{}] == gemm_configs(("policy",), HOPPER)


def test_configurations_compile() -> None:
    for target in (Target("cpu"), Target("cuda", "sm_80"), HOPPER):
        for row in gemm_configs(NAMES, target, 300, 300, 300)[:2]:
            row.pop("pass_configs", None)
            assert "gemm" == gemm(300, 300, 300, **row).name


def test_gemms_have_default_configurations() -> None:
    assert gemm_configs is default_configs(subject_of(gemm, 1, 2, 3))


def test_other_functions_have_no_default_configurations() -> None:
    def scale(n, block=None):
        raise NotImplementedError

    with pytest.raises(OptionError) as caught:
        default_configs(subject_of(scale, 3))
    assert (
        "autotune: 'scale' has no configurations, and none are known for its tunables block\n"
        "hint: pass configs={'block': [64, 128, 256]}; only tiled products with block_M and block_N can do without"
    ) == str(caught.value)
