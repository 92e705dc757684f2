"""What we compile for: the names users write, and the record they stand for.

Takes "auto", a name, a JSON text, a mapping, None; gives a `Target` and the way to run on it. Invariant: a `Target`
that exists can be compiled for by this version; the driver is asked for its devices only where that decides something.
"""

from __future__ import annotations

import contextlib
import ctypes
import difflib
import enum
import functools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tilelang.dtypes import unknown_name
from tilelang.errors import CacheError, NoLowering, OptionError
from tilelang.options import cache_folder, environment, is_cache_enabled
from tilelang.records import record


class Feature(enum.Flag):
    """What a GPU can do beyond the instructions that all of them have."""

    NONE = 0
    MMA_F16 = enum.auto()  # mma.sync m16n8k8 on float16, ldmatrix
    MMA_INT8 = enum.auto()  # mma.sync m8n8k16 on int8, m8n8k32 on int4
    MMA_AMPERE = enum.auto()  # mma.sync m16n8k16, bfloat16, tf32, float64 m8n8k4, int8 m16n8k32
    MMA_FLOAT8 = enum.auto()  # mma.sync m16n8k32 on float8
    MMA_FLOAT64 = enum.auto()  # mma.sync m16n8k4, k8 and k16 on float64
    CP_ASYNC = enum.auto()  # global -> shared without registers
    STMATRIX = enum.auto()
    CONVERT_FLOAT8 = enum.auto()  # cvt to and from float8 in one instruction
    BFLOAT16_MATH = enum.auto()  # bfloat16 conversion and arithmetic instructions
    REDUX = enum.auto()  # redux.sync on integers
    MBARRIER = enum.auto()
    CLUSTER = enum.auto()
    TMA = enum.auto()
    WGMMA = enum.auto()  # and setmaxnreg; only in sm_90a


@record(slots=True)
class Architecture:
    """One row of the table of GPUs.

    Attributes:
        name: As compilers spell it.
        features: What it can do.
        shared_bytes: Shared memory a block may have.
        shared_bytes_per_sm: Shared memory of a multiprocessor.
        threads_per_sm: Threads a multiprocessor holds.
        blocks_per_sm: Blocks a multiprocessor holds.
        groups: How many multiprocessors a device has that programs are scheduled for, in each group that holds whole
            clusters; empty where no schedule asks. Devices with fewer or more of them run the same programs.

    Source: CUDA C++ Programming Guide, "Compute Capabilities", technical specifications per compute capability; the
    features from the PTX ISA, "Target ISA Notes" of each instruction; 132 multiprocessors from NVIDIA H100 Tensor Core
    GPU Architecture, table "Comparison of NVIDIA A100 and H100 Data Center GPUs", H100 SXM5, as which H200 is built. It
    has 8 groups of at most 18; that they divide so follows from the 66 clusters of 2 and 30 of 4 blocks that an H200
    holds, measured by cuOccupancyMaxActiveClusters, since multiprocessors come in pairs.
    """

    name: str
    features: Feature
    shared_bytes: int
    shared_bytes_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    groups: tuple[int, ...] = ()

    @property
    def number(self) -> int:
        """90 of "sm_90a"."""
        return int(self.name.removeprefix("sm_").rstrip("af"))

    @property
    def multiprocessors(self) -> int:
        """How many a device has that programs are scheduled for; 0 where no schedule asks."""
        return sum(self.groups)

    def blocks_at_once(self, cluster: int) -> int:
        """Blocks that run at the same time, one on a multiprocessor, where so many make a cluster."""
        return sum(group // cluster for group in self.groups) * cluster


MAX_THREADS = 1024  # per block; Source: CUDA C++ Programming Guide, "Compute Capabilities"
MAX_GRID = (2**31 - 1, 65535, 65535)  # blocks along x, y and z; the same source
PORTABLE_CLUSTER, MAX_CLUSTER = 8, 16  # blocks; Source: CUDA C++ Programming Guide, "Thread Block Clusters"
REGISTERS_PER_SM = 65536  # of 32 bits
MAX_REGISTERS = 255  # per thread
WARP_SIZE = 32

_TURING = Feature.MMA_F16 | Feature.MMA_INT8
_AMPERE = _TURING | Feature.MMA_AMPERE | Feature.CP_ASYNC | Feature.BFLOAT16_MATH | Feature.REDUX | Feature.MBARRIER
_ADA = _AMPERE | Feature.MMA_FLOAT8 | Feature.CONVERT_FLOAT8
_HOPPER = _ADA | Feature.MMA_FLOAT64 | Feature.STMATRIX | Feature.CLUSTER | Feature.TMA
_KIB = 1024
_H200 = (18, 18, 18, 18, 16, 16, 14, 14)

ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        row.name: row
        for row in (
            Architecture("sm_75", _TURING, 64 * _KIB, 64 * _KIB, 1024, 16),
            Architecture("sm_80", _AMPERE, 163 * _KIB, 164 * _KIB, 2048, 32),
            Architecture("sm_86", _AMPERE, 99 * _KIB, 100 * _KIB, 1536, 16),
            Architecture("sm_87", _AMPERE, 163 * _KIB, 164 * _KIB, 1536, 16),
            Architecture("sm_89", _ADA, 99 * _KIB, 100 * _KIB, 1536, 24),
            Architecture("sm_90", _HOPPER, 227 * _KIB, 228 * _KIB, 2048, 32, _H200),
            Architecture("sm_90a", _HOPPER | Feature.WGMMA, 227 * _KIB, 228 * _KIB, 2048, 32, _H200),
            Architecture("sm_100", _HOPPER, 227 * _KIB, 228 * _KIB, 2048, 32),
            Architecture("sm_100a", _HOPPER, 227 * _KIB, 228 * _KIB, 2048, 32),
            Architecture("sm_103a", _HOPPER, 227 * _KIB, 228 * _KIB, 2048, 32),
            Architecture("sm_120", _HOPPER, 99 * _KIB, 100 * _KIB, 1536, 24),
            Architecture("sm_120a", _HOPPER, 99 * _KIB, 100 * _KIB, 1536, 24),
        )
    }
)


@record(slots=True)
class Target:
    """A machine to compile for.

    Attributes:
        kind: The family, which picks the backend: "cpu" or "cuda".
        arch: The member of the family: a row of `ARCHITECTURES`, or "native" for the CPU at hand.
    """

    kind: str
    arch: str = "native"

    def __str__(self) -> str:
        return self.kind if self.arch == "native" else f"{self.kind}:{self.arch}"

    @property
    def architecture(self) -> Architecture:
        """The row of a GPU target."""
        return ARCHITECTURES[self.arch]

    def has(self, features: Feature) -> bool:
        """Whether a GPU target can do all of these."""
        return features in self.architecture.features


TargetLike = str | Mapping[str, object] | Target | None

ALIASES: Mapping[str, str] = MappingProxyType(
    {"cpu": "cpu", "c": "cpu", "llvm": "cpu", "host": "cpu", "cuda": "cuda", "nvptx": "cuda"}
)
ABSENT = ("hip", "rocm", "metal", "webgpu")  # families of the language that this version cannot compile for
DEFAULT_ARCH = "sm_90a"  # of "cuda" where no device is present

# per kind of target: the ways to run its kernels, the one that "auto" means first
EXECUTION_BACKENDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"cpu": ("cc", "reference"), "cuda": ("nvrtc", "nvcc", "simulator", "reference")}
)
_MEANINGS = {
    "cc": "'cc' for compiled code",
    "nvrtc": "'nvrtc' or 'nvcc' for compiled code",
    "simulator": "'simulator' for the thread-level program on the CPU",
    "reference": "'reference' for the interpreter",
}
_PUBLISHED_BACKENDS = ("cython", "ctypes", "dlpack", "tvm_ffi", "torch")  # of the published package; no choice here


def parse_target(value: TargetLike = None) -> Target:
    """The target that a user means.

    Raises:
        OptionError: The name, the mapping or the architecture means nothing.
        NoLowering: The family is known, but this version cannot compile for it.
    """
    if isinstance(value, Target):
        return value
    if value is None or value == "auto":
        return _parse(environment("TILELANG_DEFAULT_TARGET"), "TILELANG_DEFAULT_TARGET")
    return _parse(value, "target")


def _parse(value: object, what: str) -> Target:
    if isinstance(value, Mapping):
        return _from_mapping(value, what)
    if not isinstance(value, str):
        raise OptionError(
            f"{what}: expected a name or a mapping with 'kind', got {value!r}",
            hint="write target='cpu' or target={'kind': 'cuda', 'arch': 'sm_90a'}",
        )
    text = value.strip()
    if text.startswith("{"):
        try:
            return _from_mapping(json.loads(text), what)
        except json.JSONDecodeError as error:
            raise OptionError(
                f"{what}: {text!r} is not valid JSON: {error}", hint="""write '{"kind": "cpu"}'"""
            ) from None
    name, *options = text.split() or [""]
    return _from_name(name, _arch_option(options, text, what), what)


_FIELDS = ("kind", "arch", "keys", "tag", "mcpu", "num-cores")


def _arch_option(options: list[str], text: str, what: str) -> str:
    """The architecture that the options after a name ask for, as in "cuda -arch=sm_80"."""
    arch = "native"
    words = iter(options)
    for word in words:
        name, equals, given = word.lstrip("-").partition("=")
        given = given if equals else next(words, "")
        if not word.startswith("-") or name not in _FIELDS or not given:
            raise OptionError(
                f"{what}: cannot read {word!r} of {text!r}", hint="write options as in 'cuda -arch=sm_90a'"
            )
        arch = given if name == "arch" else arch
    return arch


def _from_mapping(value: Mapping[str, object], what: str) -> Target:
    kind = value.get("kind")
    if not isinstance(kind, str):
        raise OptionError(f"{what}: {dict(value)!r} has no 'kind'", hint="write {'kind': 'cpu'}")
    for key in value:
        if key not in _FIELDS:
            raise OptionError(
                f"{what}: unknown field {key!r} in {dict(value)!r}", hint="the fields are 'kind' and 'arch'"
            )
    arch = value.get("arch", "native")
    if not isinstance(arch, str):
        raise OptionError(f"{what}: 'arch' must be a text, got {arch!r}")
    return _from_name(kind, arch, what)


def _from_name(name: str, arch: str, what: str) -> Target:
    if name == "auto":
        present = present_arch()
        return Target("cuda", present) if present else Target("cpu")
    if name.startswith("sm_"):
        name, arch = "cuda", name if arch == "native" else arch
    if name in ABSENT:
        raise NoLowering(
            f"{what}: {name!r} is not available; this version compiles for NVIDIA GPUs and for the CPU",
            hint="write target='cuda', target='cpu', or target='auto' to take the best target present",
        )
    if name not in ALIASES:
        raise unknown_name(what, name, ["auto", *ALIASES, *ABSENT])
    if ALIASES[name] == "cuda":
        return Target("cuda", _cuda_arch(arch, what))
    if arch != "native":
        raise OptionError(f"{what}: unknown arch {arch!r} of 'cpu'", hint="leave 'arch' out; 'native' is the only one")
    return Target(ALIASES[name])


def _cuda_arch(arch: str, what: str) -> str:
    if arch == "native":
        return present_arch() or DEFAULT_ARCH
    if arch in ARCHITECTURES:
        return arch
    near = difflib.get_close_matches(arch, ARCHITECTURES, n=1, cutoff=0.5)
    known = ", ".join(ARCHITECTURES)
    raise OptionError(
        f"{what}: unknown arch {arch!r} of 'cuda'; the known ones are {known}",
        hint=f"did you mean {near[0]!r}?" if near else "write target={'kind': 'cuda', 'arch': 'sm_90a'}",
    )


# -- the device at hand --------------------------------------------------------------------------------------
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # Source: CUDA Driver API, enum CUdevice_attribute


def arch_of(major: int, minor: int) -> str | None:
    """The best row of `ARCHITECTURES` whose code runs on devices of a compute capability, or None if none does.

    Code for an architecture runs on devices of the same major number and no smaller minor number; what ends in "a" runs
    on that very capability only.

    Source: CUDA C++ Programming Guide, "Binary Compatibility" and "Feature Set Compiler Targets".
    """
    number = major * 10 + minor
    if f"sm_{number}a" in ARCHITECTURES:
        return f"sm_{number}a"
    fitting = [a for a in ARCHITECTURES.values() if a.number // 10 == major and a.number <= number]
    plain = [a for a in fitting if not a.name.endswith("a")]
    return max(plain, key=lambda a: a.number).name if plain else None


@functools.lru_cache(maxsize=1)
def present_arch() -> str | None:
    """The architecture of the first device that the driver shows, or None without a driver or a device we know.

    The answer is kept: a device does not come or go while a process runs.
    """
    try:
        driver = ctypes.CDLL("nvcuda.dll" if hasattr(ctypes, "WinDLL") else "libcuda.so.1")
    except OSError:
        return None
    seen = _devices_seen()
    capability = _recalled(seen)
    if capability is None:
        capability = _ask_management()
        if capability is None:
            capability = _ask_driver(driver)
        else:
            _remember(seen, capability)
    return None if capability is None else arch_of(*capability)


def _ask_driver(driver: ctypes.CDLL) -> tuple[int, int] | None:
    """The compute capability of the first device."""
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    try:
        answers = (
            driver.cuInit(0)
            or driver.cuDeviceGet(ctypes.byref(device), 0)
            or driver.cuDeviceGetAttribute(ctypes.byref(major), _CAPABILITY_MAJOR, device)
            or driver.cuDeviceGetAttribute(ctypes.byref(minor), _CAPABILITY_MINOR, device)
        )
    except AttributeError:
        return None
    return None if answers else (major.value, minor.value)


_KERNEL_MODULE, _NODES = Path("/proc/driver/nvidia"), Path("/dev")
_RECORD = "devices.json"  # in the cache folder


def _devices_seen() -> list[str] | None:
    """Texts that change whenever the answer of `_ask_management` may; None where there are none, or devices differ.

    Reading them takes a tenth of the time that the management library takes to answer.
    """
    try:
        devices = [path.read_text() for path in sorted(_KERNEL_MODULE.glob("gpus/*/information"))]
        version = (_KERNEL_MODULE / "version").read_text()
        nodes = sorted(name for name in os.listdir(_NODES) if name.startswith("nvidia"))
    except OSError:
        return None
    models = {line for text in devices for line in text.splitlines() if line.startswith("Model:")}
    choice = [os.environ.get(name, "all") for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")]
    return [version, *devices, *nodes, *choice] if len(models) == 1 else None


def _recalled(seen: list[str] | None) -> tuple[int, int] | None:
    """What was answered when the same was seen before."""
    if seen is None or not is_cache_enabled():
        return None
    try:
        kept = json.loads((cache_folder() / _RECORD).read_text())
        major, minor = kept["capability"] if kept["seen"] == seen else (None, None)
    except (CacheError, OSError, ValueError, LookupError, TypeError):
        return None
    return (major, minor) if isinstance(major, int) and isinstance(minor, int) else None


def _remember(seen: list[str] | None, capability: tuple[int, int]) -> None:
    """Keeps an answer for other processes; where that is not possible they ask again."""
    if seen is None or not is_cache_enabled():
        return
    with contextlib.suppress(CacheError, OSError):
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{_RECORD}.{os.getpid()}"
        temporary.write_text(json.dumps({"seen": seen, "capability": capability}))
        os.replace(temporary, folder / _RECORD)


def _ask_management() -> tuple[int, int] | None:
    """The compute capability of the first device, where that is plain without starting CUDA.

    Starting CUDA takes longer than loading a kernel that is in the cache: 0.18 s on a machine with one H200, where this
    takes 6 ms. The library stays open, since closing it takes longer still. None where only the driver knows which
    device is the first, or whether there is one: devices differ, some are hidden, or divided into instances.

    Source: NVML API Reference, "Device Queries" and "Multi Instance GPU Management"; CUDA C++ Programming Guide, "CUDA
    Environment Variables".
    """
    try:
        library = ctypes.CDLL("nvml.dll" if hasattr(ctypes, "WinDLL") else "libnvidia-ml.so.1")
        return None if library.nvmlInit_v2() else _alike(library)
    except (OSError, AttributeError):
        return None


def _alike(library: ctypes.CDLL) -> tuple[int, int] | None:
    """The compute capability that all devices have, if the first one of them is not hidden."""
    count, device = ctypes.c_uint(), ctypes.c_void_p()
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return None
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0].strip()
    if not first.isdecimal() or int(first) >= count.value:
        return None
    found = set()
    for index in range(count.value):
        major, minor = ctypes.c_int(), ctypes.c_int()
        divided, soon = ctypes.c_uint(), ctypes.c_uint()
        if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
            return None
        if library.nvmlDeviceGetCudaComputeCapability(device, ctypes.byref(major), ctypes.byref(minor)):
            return None
        library.nvmlDeviceGetMigMode(device, ctypes.byref(divided), ctypes.byref(soon))  # many devices have none
        if divided.value:
            return None
        found.add((major.value, minor.value))
    return found.pop() if len(found) == 1 else None


# -- how a kernel runs ---------------------------------------------------------------------------------------
def parse_execution_backend(value: str | None = None, target: Target = Target("cpu")) -> str:
    """The execution backend that a user means for a target.

    Raises:
        OptionError: The name means nothing, or does not run kernels of this target.
    """
    allowed = EXECUTION_BACKENDS[target.kind]
    name, what = value, "execution_backend"
    if name is None or name == "auto":
        name, what = environment("TILELANG_EXECUTION_BACKEND"), "TILELANG_EXECUTION_BACKEND"
    if name == "auto":
        return allowed[0]
    if name in allowed:
        return name
    others = {other for names in EXECUTION_BACKENDS.values() for other in names}
    if name in others or name in _PUBLISHED_BACKENDS:
        ways = ", ".join(_MEANINGS[other] for other in allowed if other in _MEANINGS)
        family = "CPU" if target.kind == "cpu" else target.kind.upper()
        raise OptionError(f"{what}: {name!r} does not run on the {family} target", hint=f"write {ways}, or 'auto'")
    raise unknown_name(what, str(name), ["auto", *sorted(others)])
