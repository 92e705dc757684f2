import pytest

from tilelang.carver import arch
from tilelang.errors import NoLowering


def test_gpus_by_their_generation() -> None:
    kinds = [arch.is_volta_arch, arch.is_ampere_arch, arch.is_ada_arch, arch.is_hopper_arch]
    known = {name: [kind(arch.get_arch(name)) for kind in kinds] for name in ("sm_75", "sm_86", "sm_89", "sm_90a")}
    assert {
        "sm_75": [False, False, False, False],
        "sm_86": [False, True, False, False],
        "sm_89": [False, False, True, False],
        "sm_90a": [False, False, False, True],
    } == known
    hopper = arch.get_arch("sm_90a")
    assert arch.is_cuda_arch(hopper)
    assert arch.has_mma_support(hopper)
    assert 64 * 1024 == arch.CUDA("sm_80").reg_cap


def test_the_cpu_is_a_machine_too() -> None:
    cpu = arch.get_arch("cpu")
    assert arch.is_cpu_arch(cpu)
    assert not arch.is_cuda_arch(cpu)
    assert cpu.compute_max_core >= 1


def test_the_machine_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.carver.arch.kinds.present_arch", lambda: "sm_80")
    found = arch.auto_infer_current_arch()
    assert arch.is_ampere_arch(found)
    assert not any(absent(found) for absent in (arch.is_cdna_arch, arch.is_rdna_arch, arch.is_metal_arch))


@pytest.mark.parametrize("kind", [arch.CDNA, arch.RDNA, arch.METAL])
def test_machines_without_a_target(kind: type) -> None:
    with pytest.raises(NoLowering, match=f"carver.arch.{kind.__name__}: there is no description for 'hip'"):
        kind("hip")
