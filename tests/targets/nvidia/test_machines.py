import pytest

from tilelang.targets.nvidia.machines import DEFAULT_ARCH, MACHINES, Feature, arch_of, number_of, runs_on


@pytest.mark.parametrize(
    ("capability", "arch"),
    [
        ((9, 0), "sm_90a"), ((8, 0), "sm_80"), ((7, 5), "sm_75"), ((8, 8), "sm_87"), ((12, 0), "sm_120a"),
        ((12, 1), "sm_120"), ((10, 0), "sm_100a"), ((10, 3), "sm_103a"), ((7, 0), None), ((30, 0), None),
    ],
)  # fmt: skip
def test_a_capability_gets_the_best_code_that_runs_on_it(capability: tuple[int, int], arch: str | None) -> None:
    assert arch == arch_of(*capability)


def test_every_gpu_has_figures_that_fit_each_other() -> None:
    assert DEFAULT_ARCH in MACHINES
    for name, machine in MACHINES.items():
        assert name == machine.name
        assert machine.max_threads % machine.warp_size == 0
        assert machine.shared_banks * machine.bank_bytes == 128
        assert (machine.max_cluster > 1) == (Feature.CLUSTER in machine.features)
        assert 64 << 10 <= machine.shared_bytes < 228 << 10
        assert all(machine.blocks_at_once(cluster) % cluster == 0 for cluster in (1, 2, 4, 8))


def test_matrix_rates_are_those_of_data_sheets() -> None:
    for name, machine in MACHINES.items():
        assert (machine.rates is None) == (machine.data_sheet is not None), name
        if machine.data_sheet is not None:
            rates = machine.data_sheet.rates
            found = rates.matrix * rates.clock * machine.data_sheet.machine.multiprocessors
            assert pytest.approx(machine.matrix_flops, rel=0.02) == found


def test_newer_gpus_can_do_what_older_ones_can() -> None:
    ordered = sorted(MACHINES.values(), key=lambda machine: number_of(machine.name))
    for older, newer in zip(ordered, ordered[1:], strict=False):
        assert newer.has(older.features & ~Feature.WGMMA), (older.name, newer.name)  # in sm_90a only


def test_an_h200_holds_66_clusters_of_2_and_30_of_4() -> None:
    machine = MACHINES["sm_90a"]
    assert (132, 2 * 66, 4 * 30) == (machine.multiprocessors, machine.blocks_at_once(2), machine.blocks_at_once(4))


@pytest.mark.parametrize(
    ("code_for", "machine", "runs"),
    [
        ("sm_80", "sm_80", True), ("sm_80", "sm_86", True), ("sm_86", "sm_80", False), ("sm_80", "sm_90", False),
        ("sm_90", "sm_90a", True), ("sm_90a", "sm_90", True), ("sm_100f", "sm_103a", True), ("sm_100a", "sm_103a", False),
    ],
)  # fmt: skip
def test_code_runs_on_gpus_of_its_generation(code_for: str, machine: str, runs: bool) -> None:
    assert runs == runs_on(MACHINES[code_for], MACHINES[machine])
