import dataclasses
import enum
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from tilelang.errors import NoLowering, OptionError, TargetError
from tilelang.targets import registry
from tilelang.targets.machine import Machine
from tilelang.targets.nvidia.machines import MACHINES, Feature
from tilelang.targets.registry import families, family_of
from tilelang.targets.target import Target, parse_execution_backend, parse_target, present_target


@pytest.fixture(autouse=True)
def _no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a GPU, whatever this one has."""
    monkeypatch.setattr("tilelang.targets.nvidia.present_device.present_arch", lambda: None)


@pytest.mark.parametrize(
    "given", ["auto", None, "cpu", "c", "llvm", {"kind": "cpu"}, '{"kind": "llvm"}', Target("cpu")]
)
def test_every_spelling_of_the_cpu_means_the_cpu(given: object) -> None:
    assert Target("cpu") == parse_target(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["c", '{"kind": "cpu", "arch": "native"}', "auto"])
def test_the_environment_gives_the_default(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", text)
    assert Target("cpu") == parse_target(None)


def test_an_argument_beats_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "metal")
    assert Target("cpu") == parse_target("cpu")
    with pytest.raises(NoLowering, match="TILELANG_DEFAULT_TARGET: 'metal' is not available"):
        parse_target("auto")


def test_a_target_around_is_what_auto_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
    hopper, ampere = Target("cuda", "sm_90a"), Target("cuda", "sm_80")
    with hopper as entered:
        assert entered is hopper is parse_target("auto") is parse_target(None)
        assert Target("cpu") == parse_target("cpu")
        with pytest.raises(ZeroDivisionError), ampere:
            assert ampere is parse_target(None) is Target.current(allow_none=False)
            raise ZeroDivisionError
        with hopper, ampere, hopper:
            assert hopper is Target.current()
        assert hopper is Target.current()
    assert Target.current() is None
    assert Target("cpu") == parse_target("auto")
    with pytest.raises(TargetError, match="there is no `with target:` around"):
        Target.current(allow_none=False)


@pytest.mark.parametrize(
    ("given", "arch"),
    [
        ("cuda", "sm_90a"),
        ("sm_80", "sm_80"),
        ({"kind": "cuda", "arch": "sm_80", "max_num_threads": 1024, "thread_warp_size": 32}, "sm_80"),
        ("cutedsl", "sm_90a"),
        ("nvptx", "sm_90a"),
        ({"kind": "cuda", "arch": "sm_90a"}, "sm_90a"),
        ('{"kind": "cuda", "arch": "sm_120a"}', "sm_120a"),
        (Target("cuda", "sm_75"), "sm_75"),
    ],
)
def test_every_spelling_of_a_gpu_means_its_architecture(given: object, arch: str) -> None:
    assert Target("cuda", arch) == parse_target(given)  # type: ignore[arg-type]


def test_cuda_without_an_architecture_is_the_device_present(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.targets.nvidia.present_device.present_arch", lambda: "sm_86")
    assert Target("cuda", "sm_86") == parse_target("cuda")
    assert Target("cuda", "sm_86") == parse_target("auto")
    assert Target("cpu") == parse_target("cpu")


def test_auto_is_the_cpu_where_no_device_answers() -> None:
    assert Target("cpu") == parse_target("auto")
    assert present_target() is None


@pytest.mark.parametrize("given", ["metal", "webgpu", {"kind": "metal"}])
def test_targets_of_other_versions_say_what_to_write(given: object) -> None:
    with pytest.raises(NoLowering) as caught:
        parse_target(given)  # type: ignore[arg-type]
    assert (
        "write target='cuda', target='hip', target='cpu', or target='auto' to take the best target present"
        == caught.value.hint
    )


def test_the_message_for_an_absent_family_is_whole() -> None:
    with pytest.raises(NoLowering) as caught:
        parse_target("metal")
    assert (
        "target: 'metal' is not available; this version compiles for NVIDIA GPUs and for AMD GPUs and for the CPU\n"
        "hint: write target='cuda', target='hip', target='cpu', or target='auto' to take the best target present"
    ) == str(caught.value)


def test_an_unknown_architecture_names_the_nearest() -> None:
    with pytest.raises(OptionError) as caught:
        parse_target({"kind": "cuda", "arch": "sm_91a"})
    known = ", ".join(MACHINES)
    assert (
        f"target: unknown arch 'sm_91a' of 'cuda'; the known ones are {known}\n"
        "hint: a valid target config dict is {'kind': 'cuda', 'arch': 'sm_90a'}"
    ) == str(caught.value)


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("gfx900", "gfx90a"),
        ("gfx90", "gfx90a"),
        ("gfx941", "gfx942"),
        ("gfx1101", "gfx1100"),
        ("gfx1030", "gfx1100"),
        ("gfx1103", "gfx1100"),
        ("gfx1150", "gfx1151"),
        ("gfx1250", "gfx1200"),
        ("gfx942:sramecc+:xnack-", "gfx942"),
        ("MI250X", "gfx90a"),
        ("mi355x", "gfx950"),
        ("sm_80", "gfx942"),
        ("", "gfx942"),
    ],
)
def test_the_nearest_architecture_is_of_the_generation(given: str, near: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_target({"kind": "hip", "arch": given})
    assert f"hint: a valid target config dict is {{'kind': 'hip', 'arch': '{near}'}}" == str(caught.value).splitlines()[-1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("cpi", "target: unknown name 'cpi'\nhint: did you mean 'cpu'? Pass target options as a dict, such as "
                "{'kind': 'cuda', 'arch': 'sm_90a'}"),
        ("H100", "target: unknown name 'H100'\nhint: write 'sm_90a'. Pass target options as a dict, such as "
                 "{'kind': 'cuda', 'arch': 'sm_90a'}"),
        ("RTX 4090", "target: unknown name 'RTX 4090'\nhint: write 'sm_89'. Pass target options as a dict, such as "
                     "{'kind': 'cuda', 'arch': 'sm_90a'}"),
        ("MI300X", "target: unknown name 'MI300X'\nhint: write 'gfx942'. Pass target options as a dict, such as "
                   "{'kind': 'cuda', 'arch': 'sm_90a'}"),
        ("sm90", "target: unknown name 'sm90'\nhint: write 'sm_90a'. Pass target options as a dict, such as "
                 "{'kind': 'cuda', 'arch': 'sm_90a'}"),
        ("simulator", "target: unknown name 'simulator'\nhint: write execution_backend='simulator'; the target is the "
                      "machine that it stands for. Pass target options as a dict, such as "
                      "{'kind': 'cuda', 'arch': 'sm_90a'}"),
        ({"kind": "cuda", "arch": "h100"},
         f"target: unknown arch 'h100' of 'cuda'; the known ones are {', '.join(MACHINES)}\n"
         "hint: a valid target config dict is {'kind': 'cuda', 'arch': 'sm_90a'}"),
        (7, "target: expected a name or a mapping with 'kind', got 7\n"
            "hint: write target='cpu' or target={'kind': 'cuda', 'arch': 'sm_90a'}"),
        ("cuda -arch=sm_80", "target: 'cuda -arch=sm_80' is not the name of a target\n"
                             "hint: Pass target options as a dict, such as {'kind': 'cuda', 'arch': 'sm_80'}"),
        ("hip -mcpu=gfx950", "target: 'hip -mcpu=gfx950' is not the name of a target\n"
                             "hint: Pass target options as a dict, such as {'kind': 'hip', 'arch': 'gfx950'}"),
        ("rocm -mcpu=gfx1", "target: 'rocm -mcpu=gfx1' is not the name of a target\n"
                            "hint: Pass target options as a dict, such as {'kind': 'hip', 'arch': 'gfx942'}"),
        ({"arch": "x"}, "target: {'arch': 'x'} has no 'kind'\n"
                        "hint: a valid target config dict is {'kind': 'cuda', 'arch': 'sm_90a'}"),
        ({"kind": "cpu", "speed": 9}, "target: {'kind': 'cpu', 'speed': 9} has the unknown field 'speed'\n"
                                      "hint: a valid target config dict is {'kind': 'cpu'}"),
        ({"kind": "cuda", "arch": 90}, "target: {'kind': 'cuda', 'arch': 90} has an 'arch' that is no text\n"
                                       "hint: a valid target config dict is {'kind': 'cuda', 'arch': 'sm_90a'}"),
        ({"kind": "cuda", "code": "sm_80"}, "target: {'kind': 'cuda', 'code': 'sm_80'} has a 'code' that is no list of "
                                            "texts\nhint: a valid target config dict is {'kind': 'cuda', 'arch': "
                                            "'sm_90a'}"),
        ({"kind": "cpu", "arch": "486"}, "target: unknown arch '486' of 'cpu'\nhint: leave it out: code is generated "
                                         "for this processor; a valid target config dict is {'kind': 'cpu'}"),
        ("{kind", "target: '{kind' is not valid JSON: Expecting property name enclosed in double quotes: "
                  "line 1 column 2 (char 1)\nhint: Use JSON syntax: '{\"kind\": \"cuda\", \"arch\": \"sm_90a\"}'"),
    ],
)  # fmt: skip
def test_a_target_that_means_nothing_is_refused(given: object, message: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target(given)  # type: ignore[arg-type]
    assert message == str(caught.value)
    assert isinstance(caught.value, AssertionError)


@pytest.mark.parametrize("text", ["bogus", "cuda:90", "{kind: 'cuda'}"])
def test_a_default_target_that_means_nothing_is_a_value_error(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", text)
    with pytest.raises(ValueError, match="TILELANG_DEFAULT_TARGET: [^U]*\nhint: [^U]*Use JSON syntax"):
        parse_target("auto")


def test_a_target_says_what_it_is() -> None:
    target = parse_target({"kind": "cuda", "arch": "sm_100f", "code": ["sm_100a", "sm_103a"]})
    assert ("cuda", "cuda", "sm_100f") == (target.kind, target.kind.name, target.arch)
    code = ("sm_100a", "sm_103a")
    assert {"arch": "sm_100f", "max_num_threads": 1024, "thread_warp_size": 32, "code": code} == target.attrs
    assert {"cuda", "gpu"} == set(target.keys)
    assert {"kind": "cuda", "arch": "sm_100f", "code": list(code)} == target.export()
    assert target == parse_target(target.export())
    assert "code" not in parse_target("sm_80").attrs
    cpu = parse_target("llvm")
    assert ("cpu", "c", {}, ("cpu",)) == (cpu.kind, cpu.kind.name, cpu.attrs, cpu.keys)
    assert cpu == parse_target(cpu.export())


@pytest.mark.parametrize(
    ("arch", "code"), [("sm_90a", "sm_100a"), ("sm_100a", "sm_103a"), ("sm_86", "sm_80"), ("sm_80", "ptx")]
)
def test_code_that_does_not_run_on_a_named_gpu_is_refused(arch: str, code: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target({"kind": "cuda", "arch": arch, "code": [arch, code]})
    assert (
        f"target: 'code' names '{code}', which does not run code for '{arch}'\n"
        f"hint: leave 'code' out; a valid target config dict is {{'kind': 'cuda', 'arch': '{code}'}}"
    ) == str(caught.value)


def test_a_target_reads_as_its_kind() -> None:
    assert "cpu" == str(Target("cpu"))


@pytest.mark.parametrize(
    ("given", "expected"), [("auto", "cc"), (None, "cc"), ("cc", "cc"), ("reference", "reference")]
)
def test_execution_backends(given: str | None, expected: str) -> None:
    assert expected == parse_execution_backend(given)


def test_the_environment_gives_the_default_execution_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_EXECUTION_BACKEND", "reference")
    assert "reference" == parse_execution_backend("auto")
    assert "cc" == parse_execution_backend("cc")


@pytest.mark.parametrize(
    ("given", "expected"),
    [("auto", "nvrtc"), (None, "nvrtc"), ("nvcc", "nvcc"), ("simulator", "simulator"), ("reference", "reference")],
)
def test_execution_backends_of_a_gpu(given: str | None, expected: str) -> None:
    assert expected == parse_execution_backend(given, Target("cuda", "sm_80"))


@pytest.mark.parametrize("given", ["tvm_ffi", "cython", "ctypes"])
def test_published_names_mean_the_one_way_to_call_compiled_code(given: str) -> None:
    assert "cc" == parse_execution_backend(given)
    assert "nvrtc" == parse_execution_backend(given, Target("cuda", "sm_80"))
    assert "nvrtc" == parse_execution_backend("cutedsl", Target("cuda", "sm_80"))


@pytest.mark.parametrize("given", ["simulator", "nvrtc", "nvcc", "torch", "cutedsl", "dlpack", "referense"])
def test_execution_backends_of_other_targets_say_what_to_write(given: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_execution_backend(given)
    assert (
        f"execution_backend: Invalid execution backend '{given}' for the CPU target\n"
        "hint: write 'cc' for compiled code, 'reference' for the interpreter, or 'auto'"
    ) == str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("given", ["cc", "torch", "dlpack"])
def test_a_backend_of_the_environment_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("TILELANG_EXECUTION_BACKEND", given)
    with pytest.raises(OptionError) as caught:
        parse_execution_backend(None, Target("cuda", "sm_80"))
    assert (
        f"TILELANG_EXECUTION_BACKEND: Invalid execution backend '{given}' for the CUDA target\n"
        "hint: write 'nvrtc' or 'nvcc' for compiled code, 'simulator' for the thread-level program on the CPU, "
        "'reference' for the interpreter, or 'auto'"
    ) == str(caught.value)


@pytest.fixture
def waves() -> Iterator[Machine]:
    """A vendor of one machine, which no code compiles for, with warps of 64 threads."""

    class Unit(enum.Flag):
        MATRIX = enum.auto()

    machine = Machine("wave64a", Unit.MATRIX, warp_size=64, max_threads=512, shared_banks=64, bank_bytes=4)
    family = dataclasses.replace(
        families()["cuda"],
        kind="wave", keys=("wave", "gpu"), aliases=("wave", "waves"), prefix="wave64", machines={machine.name: machine},
        default=machine.name, present=lambda: None, runs_on=lambda code_for, other: code_for == other,
    )  # fmt: skip
    module = mock.Mock(FAMILY=family)
    with mock.patch.dict(registry._VENDORS, {"wave": "wave_family"}), mock.patch.dict(sys.modules, wave_family=module):
        yield machine
    family_of.cache_clear()


@pytest.mark.parametrize("given", ["wave", "waves", "wave64a", {"kind": "wave"}, {"kind": "waves", "arch": "wave64a"}])
def test_a_vendor_that_is_registered_has_targets(waves: Machine, given: Any) -> None:
    target = parse_target(given)
    assert ("wave", "wave64a", ("wave", "gpu"), True) == (target.kind, target.arch, target.keys, target.is_gpu)
    assert waves is target.machine
    assert {"arch": "wave64a", "max_num_threads": 512, "thread_warp_size": 64} == target.attrs
    assert target == parse_target(target.export())
    assert target.has(waves.features) and not target.has(Feature.CP_ASYNC)
    assert not parse_target("cuda").has(waves.features)


def test_machines_of_a_vendor_that_is_registered_are_checked(waves: Machine) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target({"kind": "wave", "arch": "wave32"})
    assert (
        "target: unknown arch 'wave32' of 'wave'; the known ones are wave64a\n"
        "hint: a valid target config dict is {'kind': 'wave', 'arch': 'wave64a'}"
    ) == str(caught.value)
