import pytest

from tilelang.targets.amd.machines import (
    CDNA_REGISTERS,
    EXAMPLE_ARCH,
    MACHINES,
    RDNA_REGISTERS,
    Feature,
    arch_of,
    register_file,
)

CDNA = ("gfx90a", "gfx942", "gfx950")
RDNA = ("gfx1100", "gfx1151", "gfx1200", "gfx1201")


def test_every_gpu_has_figures_that_fit_each_other() -> None:
    assert EXAMPLE_ARCH in MACHINES
    assert (*CDNA, *RDNA) == tuple(MACHINES)
    for name, machine in MACHINES.items():
        assert name == machine.name
        assert machine.max_threads % machine.warp_size == 0
        assert (64 if name in CDNA else 32) == machine.warp_size
        assert (160 if name == "gfx950" else 64) * 1024 == machine.shared_bytes
        assert (64 if name == "gfx950" else 32) == machine.shared_banks


# Source: AMD's product pages of these devices: peak rates of float16 matrices without sparsity, in TFLOP/s
@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("gfx90a", 383 / 2), ("gfx942", 1307.4), ("gfx950", 2516.6), ("gfx1100", 122.8), ("gfx1151", 59.4),
        ("gfx1200", 103), ("gfx1201", 195),
    ],
)  # fmt: skip
def test_matrix_rates_are_those_of_data_sheets(name: str, tflops: float) -> None:
    sheet = MACHINES[name].data_sheet
    assert sheet is not None
    found = sheet.rates.matrix * sheet.rates.clock * sheet.machine.multiprocessors
    assert pytest.approx(tflops * 1e12, rel=0.01) == found


def test_matrix_instructions_are_of_one_kind() -> None:
    kinds = (Feature.MFMA, Feature.WMMA_REPEATED, Feature.WMMA_SPLIT)
    assert all(1 == sum(machine.has(kind) for kind in kinds) for machine in MACHINES.values())


# Source: what clang 22 compiles and assembles for each
@pytest.mark.parametrize(
    ("feature", "machines"),
    [
        (Feature.MFMA_I8_NARROW, "gfx90a"),
        (Feature.MFMA_I8, "gfx942 gfx950"),
        (Feature.MFMA_XF32, "gfx942"),
        (Feature.MFMA_FP8_FNUZ, "gfx942"),
        (Feature.MFMA_FP8_OCP, "gfx950"),
        (Feature.MFMA_F64, "gfx90a gfx942 gfx950"),
        (Feature.MFMA_WIDE, "gfx950"),
        (Feature.DIRECT_TO_LDS, "gfx942 gfx950"),
        (Feature.DIRECT_TO_LDS_WIDE, "gfx950"),
        (Feature.TRANSPOSED_READ, "gfx950"),
        (Feature.ROW_BROADCAST, "gfx90a gfx942 gfx950"),
        (Feature.ATOMIC_ADD_F32, "gfx942 gfx950 gfx1100 gfx1151 gfx1200 gfx1201"),
        (Feature.ATOMIC_ADD_F16X2, "gfx90a gfx942 gfx950 gfx1200 gfx1201"),
        (Feature.ATOMIC_ADD_BF16X2, "gfx942 gfx950 gfx1200 gfx1201"),
        (Feature.SPLIT_BARRIER, "gfx1200 gfx1201"),
        (Feature.STORE_COUNTER, "gfx1100 gfx1151 gfx1200 gfx1201"),
        (Feature.SPLIT_COUNTERS, "gfx1200 gfx1201"),
    ],
)
def test_a_feature_is_of_these_machines(feature: Feature, machines: str) -> None:
    assert machines.split() == [name for name, machine in MACHINES.items() if machine.has(feature)]


# Source: clang's -Rpass-analysis=kernel-resource-usage
@pytest.mark.parametrize(
    ("registers", "waves"),
    [(1, 8), (64, 8), (65, 7), (72, 7), (80, 6), (96, 5), (128, 4), (168, 3), (256, 2), (257, 1), (512, 1)],
)
def test_waves_of_cdna_by_their_registers(registers: int, waves: int) -> None:
    assert waves == CDNA_REGISTERS.waves(registers)


@pytest.mark.parametrize(
    ("registers", "waves"),
    [(96, 16), (97, 12), (120, 12), (144, 10), (168, 9), (192, 8), (216, 7), (240, 6), (256, 5)],
)
def test_waves_of_rdna_by_their_registers(registers: int, waves: int) -> None:
    assert waves == RDNA_REGISTERS.waves(registers)


def test_a_machine_has_the_registers_of_its_generation() -> None:
    assert all(CDNA_REGISTERS is register_file(MACHINES[name]) for name in CDNA)
    assert all(RDNA_REGISTERS is register_file(MACHINES[name]) for name in RDNA)


@pytest.mark.parametrize(
    ("name", "arch"),
    [("gfx942:sramecc+:xnack-", "gfx942"), ("gfx1100", "gfx1100"), ("gfx1101", None), ("gfx906:sramecc-", None)],
)
def test_the_name_that_a_driver_gives_means_a_machine(name: str, arch: str | None) -> None:
    assert arch == arch_of(name)
