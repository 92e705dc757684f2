"""Every example on AMD's GPUs: simulated in every schedule, by its own check; compiled for all of them without spills."""

import pytest
from examples_of import SIZES, kernels, load, simulate_example
from gpu import SCHEDULES
from hip_kernels import ARCHES, needs_clang

import tilelang

PORTABLE = sorted(SIZES.keys() - {"02_gemm/warp_specialized_gemm.py"})  # which has instructions of Hopper
SIMULATED = ("gfx942", "gfx950", "gfx1100", "gfx1200")
MEASURED = "gfx942"
# two accumulators of 128 x 128 would take all registers of 128 threads on RDNA, and A and B are float32 in LDS
# where there are no matrix instructions for them; eight tiles of 64 x 64 and one that moves between waves exceed its LDS
SMALLER = {
    ("02_gemm/float8_gemm.py", "block_scaled"): (512, 512, 512, 64, 64),
    ("06_linear_attention/gated_delta_rule.py", "gated_delta_rule"): (1, 4, 300, 64, 96, 32),
}
pytestmark = pytest.mark.filterwarnings("ignore:T.gemm. gfx.* multiplies no float8")


@pytest.mark.slow(every=48)
@pytest.mark.parametrize("name", PORTABLE)
def test_example_agrees_with_its_reference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_example(monkeypatch, name, MEASURED, SCHEDULES[:1])


@pytest.mark.slow(every=360)
@pytest.mark.parametrize("arch", SIMULATED)
@pytest.mark.parametrize("name", PORTABLE)
def test_schedules_do_not_change_what_an_example_finds(name: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_example(monkeypatch, name, arch, SCHEDULES)


def compiles(name: str, arch: str) -> None:
    for kernel_name, func in kernels(name).items():
        sizes = SMALLER.get((name, kernel_name))
        func = func if sizes is None else getattr(load(name), kernel_name).get_tir(*sizes)
        used = tilelang.compile(func, target={"kind": "hip", "arch": arch}).resources
        assert (0, 0) == (used.spill_bytes, used.local_bytes), kernel_name


@pytest.mark.slow
@needs_clang
@pytest.mark.parametrize("name", PORTABLE)
def test_example_compiles_without_spills(name: str) -> None:
    compiles(name, MEASURED)


@needs_clang
@pytest.mark.slow(every=164)
@pytest.mark.parametrize("arch", [arch for arch in ARCHES if arch != MEASURED])
@pytest.mark.parametrize("name", PORTABLE)
def test_example_compiles_without_spills_for_the_other_gpus(name: str, arch: str) -> None:
    compiles(name, arch)
