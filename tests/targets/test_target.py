from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilelang.errors import NoLowering, OptionError, TargetError
from tilelang.targets.target import ARCHITECTURES, Target, arch_of, parse_execution_backend, parse_target, present_arch


@pytest.fixture(autouse=True)
def _no_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without a GPU, whatever this one has."""
    monkeypatch.setattr("ctypes.CDLL", _no_library)
    monkeypatch.setattr("tilelang.targets.target._KERNEL_MODULE", Path("/nowhere"))
    present_arch.cache_clear()
    yield
    present_arch.cache_clear()


def _no_library(name: str) -> None:
    raise OSError(f"{name}: cannot open shared object file")


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
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "hip")
    assert Target("cpu") == parse_target("cpu")
    with pytest.raises(NoLowering, match="TILELANG_DEFAULT_TARGET: 'hip' is not available"):
        parse_target("auto")


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


@pytest.mark.parametrize(
    ("capability", "arch"),
    [
        ((9, 0), "sm_90a"), ((8, 0), "sm_80"), ((7, 5), "sm_75"), ((8, 8), "sm_87"), ((12, 0), "sm_120a"),
        ((12, 1), "sm_120"), ((10, 0), "sm_100a"), ((10, 3), "sm_103a"), ((7, 0), None), ((30, 0), None),
    ],
)  # fmt: skip
def test_a_capability_gets_the_best_code_that_runs_on_it(capability: tuple[int, int], arch: str | None) -> None:
    assert arch == arch_of(*capability)


def test_cuda_without_an_architecture_is_the_device_present(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.targets.target.present_arch", lambda: "sm_86")
    assert Target("cuda", "sm_86") == parse_target("cuda")
    assert Target("cuda", "sm_86") == parse_target("auto")
    assert Target("cpu") == parse_target("cpu")


def test_auto_is_the_cpu_where_no_device_answers() -> None:
    assert Target("cpu") == parse_target("auto")


def test_the_first_device_is_asked_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: _Driver())  # without the functions of the management library
    assert Target("cuda", "sm_89") == parse_target("auto")


class _Driver:
    """libcuda with one device of capability 8.9."""

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDeviceGet(self, device: Any, index: int) -> int:
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: int, device: Any) -> int:
        value._obj.value = {75: 8, 76: 9}[attribute]
        return 0


class _Management:
    """NVML with devices of these capabilities; those at `divided` are in MIG mode."""

    def __init__(self, *capabilities: tuple[int, int], divided: tuple[int, ...] = (), status: int = 0) -> None:
        self._capabilities, self._divided, self._status = capabilities, divided, status

    def nvmlInit_v2(self) -> int:
        return self._status

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self._capabilities)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, device: Any) -> int:
        device._obj.value = index + 1
        return 0

    def nvmlDeviceGetCudaComputeCapability(self, device: Any, major: Any, minor: Any) -> int:
        major._obj.value, minor._obj.value = self._capabilities[device.value - 1]
        return 0

    def nvmlDeviceGetMigMode(self, device: Any, now: Any, later: Any) -> int:
        now._obj.value = device.value - 1 in self._divided
        return 0


@pytest.mark.parametrize(
    ("visible", "management", "arch"),
    [
        (None, _Management((9, 0)), "sm_90a"),
        (None, _Management((8, 0), (8, 0)), "sm_80"),
        ("1,0", _Management((8, 0), (8, 0)), "sm_80"),
        # where only the driver knows, it is asked; its device is of capability 8.9
        (None, _Management((9, 0), (8, 0)), "sm_89"),
        (None, _Management((9, 0), divided=(0,)), "sm_89"),
        (None, _Management((9, 0), status=999), "sm_89"),
        (None, _Management(), "sm_89"),
        ("", _Management((9, 0)), "sm_89"),
        ("1", _Management((9, 0)), "sm_89"),
        ("GPU-47f1096e", _Management((9, 0)), "sm_89"),
    ],
)
def test_cuda_is_started_only_where_devices_differ_or_hide(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, management: _Management, arch: str
) -> None:
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr("ctypes.CDLL", lambda name: management if "ml" in name else _Driver())
    assert Target("cuda", arch) == parse_target("cuda")


@pytest.fixture
def kernel_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What the driver shows of one GPU in the file system, and an empty cache folder."""
    device = tmp_path / "gpus" / "0000:00:06.0" / "information"
    device.parent.mkdir(parents=True)
    device.write_text("Model: \t NVIDIA H200\nGPU UUID: \t GPU-1\n")
    (tmp_path / "version").write_text("580\n")
    monkeypatch.setattr("tilelang.targets.target._KERNEL_MODULE", tmp_path)
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return device


def _answer(monkeypatch: pytest.MonkeyPatch, management: _Management) -> Target:
    """What "cuda" means to a new process."""
    monkeypatch.setattr("ctypes.CDLL", lambda name: management if "ml" in name else _Driver())
    present_arch.cache_clear()
    return parse_target("cuda")


def test_devices_are_asked_once_per_cache_folder(monkeypatch: pytest.MonkeyPatch, kernel_module: Path) -> None:
    assert Target("cuda", "sm_90a") == _answer(monkeypatch, _Management((9, 0)))
    silent = _Management((8, 0))  # nobody hears what it would say
    assert Target("cuda", "sm_90a") == _answer(monkeypatch, silent)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert Target("cuda", "sm_80") == _answer(monkeypatch, silent)
    kernel_module.write_text(kernel_module.read_text().replace("GPU-1", "GPU-2"))
    assert Target("cuda", "sm_90a") == _answer(monkeypatch, _Management((9, 0)))


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"seen": null}', "null", "3"])
def test_a_damaged_record_of_devices_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, kernel_module: Path, damage: str
) -> None:
    assert Target("cuda", "sm_90a") == _answer(monkeypatch, _Management((9, 0)))
    (kernel_module.parents[2] / "cache" / "devices.json").write_text(damage)
    assert Target("cuda", "sm_80") == _answer(monkeypatch, _Management((8, 0)))


def test_devices_that_differ_and_answers_of_the_driver_are_not_recorded(
    monkeypatch: pytest.MonkeyPatch, kernel_module: Path
) -> None:
    assert Target("cuda", "sm_89") == _answer(monkeypatch, _Management())
    assert Target("cuda", "sm_90a") == _answer(monkeypatch, _Management((9, 0)))
    other = kernel_module.parents[1] / "1" / "information"
    other.parent.mkdir()
    other.write_text("Model: \t NVIDIA A100\n")
    assert Target("cuda", "sm_80") == _answer(monkeypatch, _Management((8, 0)))
    assert Target("cuda", "sm_89") == _answer(monkeypatch, _Management((8, 0), (9, 0)))


def test_without_a_cache_devices_are_asked_each_time(monkeypatch: pytest.MonkeyPatch, kernel_module: Path) -> None:
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    assert Target("cuda", "sm_90a") == _answer(monkeypatch, _Management((9, 0)))
    assert Target("cuda", "sm_80") == _answer(monkeypatch, _Management((8, 0)))
    assert not (kernel_module.parents[2] / "cache").exists()


def test_a_management_library_without_a_driver_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: _Management((9, 0)) if "ml" in name else _no_library(name))
    assert Target("cpu") == parse_target("auto")


def test_a_driver_that_does_not_start_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    class Driver:
        def cuInit(self, flags: int) -> int:
            return 100

    monkeypatch.setattr("ctypes.CDLL", lambda name: Driver())
    assert Target("cpu") == parse_target("auto")


@pytest.mark.parametrize("given", ["hip", "rocm", {"kind": "metal"}])
def test_targets_of_other_versions_say_what_to_write(given: object) -> None:
    with pytest.raises(NoLowering) as caught:
        parse_target(given)  # type: ignore[arg-type]
    assert (
        "write target='cuda', target='cpu', or target='auto' to take the best target present" == caught.value.hint
    )


def test_the_message_for_an_absent_family_is_whole() -> None:
    with pytest.raises(NoLowering) as caught:
        parse_target("hip")
    assert (
        "target: 'hip' is not available; this version compiles for NVIDIA GPUs and for the CPU\n"
        "hint: write target='cuda', target='cpu', or target='auto' to take the best target present"
    ) == str(caught.value)


def test_an_unknown_architecture_names_the_nearest() -> None:
    with pytest.raises(OptionError) as caught:
        parse_target({"kind": "cuda", "arch": "sm_91a"})
    known = ", ".join(ARCHITECTURES)
    assert (
        f"target: unknown arch 'sm_91a' of 'cuda'; the known ones are {known}\n"
        "hint: a valid target config dict is {'kind': 'cuda', 'arch': 'sm_90a'}"
    ) == str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("cpi", "target: unknown name 'cpi'\nhint: did you mean 'cpu'? Pass target options as a dict, such as "
                "{'kind': 'cuda', 'arch': 'sm_90a'}"),
        (7, "target: expected a name or a mapping with 'kind', got 7\n"
            "hint: write target='cpu' or target={'kind': 'cuda', 'arch': 'sm_90a'}"),
        ("cuda -arch=sm_80", "target: 'cuda -arch=sm_80' is not the name of a target\n"
                             "hint: Pass target options as a dict, such as {'kind': 'cuda', 'arch': 'sm_90a'}"),
        ({"arch": "x"}, "target: {'arch': 'x'} has no 'kind'\n"
                        "hint: a valid target config dict is {'kind': 'cuda', 'arch': 'sm_90a'}"),
        ({"kind": "cpu", "speed": 9}, "target: {'kind': 'cpu', 'speed': 9} has the unknown field 'speed'\n"
                                      "hint: a valid target config dict is {'kind': 'cuda', 'arch': 'sm_90a'}"),
        ({"kind": "cuda", "arch": 90}, "target: {'kind': 'cuda', 'arch': 90} has an 'arch' that is no text\n"
                                       "hint: a valid target config dict is {'kind': 'cuda', 'arch': 'sm_90a'}"),
        ({"kind": "cuda", "code": "sm_80"}, "target: {'kind': 'cuda', 'code': 'sm_80'} has a 'code' that is no list of "
                                            "texts\nhint: a valid target config dict is {'kind': 'cuda', 'arch': "
                                            "'sm_90a'}"),
        ({"kind": "cpu", "arch": "486"}, "target: unknown arch '486' of 'cpu'\nhint: leave it out: code is made for the "
                                         "processor at hand; a valid target config dict is {'kind': 'cpu'}"),
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
