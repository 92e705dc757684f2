import subprocess
import sys
from typing import Any

import pytest

from tilelang.errors import TargetError
from tilelang.targets.amd.family import FAMILY
from tilelang.targets.amd.machines import MACHINES
from tilelang.targets.target import Target, parse_execution_backend, parse_target


@pytest.fixture(autouse=True)
def _no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a GPU, whatever this one has."""
    for vendor in ("amd", "nvidia"):
        monkeypatch.setattr(f"tilelang.targets.{vendor}.present_device.present_arch", lambda: None)


def test_the_family_is_registered_by_its_kind() -> None:
    assert "hip" == FAMILY.kind == FAMILY.backend().kind


def test_asking_about_targets_loads_no_part_of_the_compiler() -> None:
    program = (
        "import sys\n"
        "from tilelang.targets.amd.family import FAMILY\n"
        "assert not [n for n in sys.modules if n.startswith('tilelang.passes') or n == FAMILY.module]"
    )
    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode


@pytest.mark.parametrize(
    "given", ["gfx942", {"kind": "hip", "arch": "gfx942"}, {"kind": "rocm", "arch": "gfx942"}, Target("hip", "gfx942")]
)
def test_every_spelling_means_its_machine(given: Any) -> None:
    target = parse_target(given)
    assert Target("hip", "gfx942") == target
    assert ("hip", ("hip", "gpu"), True) == (target.kind.name, target.keys, target.is_gpu)
    assert {"arch": "gfx942", "max_num_threads": 1024, "thread_warp_size": 64} == target.attrs
    assert target == parse_target(target.export())


@pytest.mark.parametrize("given", ["hip", "rocm", {"kind": "hip"}])
def test_without_a_device_a_machine_must_be_named(given: Any) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target(given)
    assert (
        "target: 'hip' without 'arch' means the device at hand, and no device is found; the known machines are "
        f"{', '.join(MACHINES)}\n"
        "hint: name the one to compile for: a valid target config dict is {'kind': 'hip', 'arch': 'gfx942'}"
    ) == str(caught.value)


def test_without_a_machine_the_device_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.targets.amd.present_device.present_arch", lambda: "gfx1100")
    assert Target("hip", "gfx1100") == parse_target("hip") == parse_target("auto")
    assert Target("hip", "gfx950") == parse_target("gfx950")


def test_cuda_is_preferred_where_both_have_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.targets.amd.present_device.present_arch", lambda: "gfx942")
    monkeypatch.setattr("tilelang.targets.nvidia.present_device.present_arch", lambda: "sm_80")
    assert Target("cuda", "sm_80") == parse_target("auto")


@pytest.mark.parametrize(
    ("arch", "near"), [("GFX942", "gfx942"), ("mi300", "gfx942")]
)
def test_an_unknown_machine_names_the_nearest(arch: str, near: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target({"kind": "hip", "arch": arch})
    assert (
        f"target: unknown arch {arch!r} of 'hip'; the known ones are {', '.join(MACHINES)}\n"
        f"hint: a valid target config dict is {{'kind': 'hip', 'arch': '{near}'}}"
    ) == str(caught.value)


def test_a_nickname_is_told_the_name() -> None:
    with pytest.raises(TargetError, match="did you mean 'hip'"):
        parse_target("amd")


def test_ways_to_run_kernels() -> None:
    target = Target("hip", "gfx942")
    assert "clang" == parse_execution_backend("auto", target) == parse_execution_backend("ctypes", target)
    assert ["hiprtc", "simulator", "reference"] == [
        parse_execution_backend(way, target) for way in ("hiprtc", "simulator", "reference")
    ]
