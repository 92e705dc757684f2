"""What we compile for: the names users write, and the record they stand for.

Takes "auto", a name, a JSON text, a mapping, None; gives a `Target` and the way to run on it. Invariant: a `Target`
that exists can be compiled for by this version; the driver is asked for its devices only where that decides something.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from tilelang.errors import CacheError, NoLowering, OptionError, TargetError, nearest
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
    TCGEN05 = enum.auto()  # matrix units with a memory of their own; no row has it, since nothing generates them


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
            Architecture("sm_100f", _HOPPER, 227 * _KIB, 228 * _KIB, 2048, 32),
            Architecture("sm_103a", _HOPPER, 227 * _KIB, 228 * _KIB, 2048, 32),
            Architecture("sm_120", _HOPPER, 99 * _KIB, 100 * _KIB, 1536, 24),
            Architecture("sm_120a", _HOPPER, 99 * _KIB, 100 * _KIB, 1536, 24),
        )
    }
)


class TargetKind(str):
    """A family of machines: a text, "cpu" or "cuda", with the name that published TileLang has for it."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The same text, but "c" for the CPU."""
        return "c" if self == "cpu" else str(self)


@record(slots=True)
class Target:
    """A machine to compile for.

    Attributes:
        kind: The family, which picks the backend: "cpu" or "cuda".
        arch: The member of the family: a row of `ARCHITECTURES`, or "native" for the CPU at hand.
        code: The GPUs that the user named besides, all of which run code for `arch`.
    """

    kind: TargetKind
    arch: str
    code: tuple[str, ...]

    def __init__(self, kind: str, arch: str = "native", code: Sequence[str] = ()) -> None:
        for name, value in (("kind", TargetKind(kind)), ("arch", arch), ("code", tuple(code))):
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return str(self.kind) if self.arch == "native" else f"{self.kind}:{self.arch}"

    @property
    def architecture(self) -> Architecture:
        """The row of a GPU target."""
        return ARCHITECTURES[self.arch]

    @property
    def attrs(self) -> dict[str, object]:
        """What is known of a GPU target: "arch", "max_num_threads" of a block, "thread_warp_size", "code" if given."""
        if self.kind == "cpu":
            return {}
        facts = {"arch": self.arch, "max_num_threads": MAX_THREADS, "thread_warp_size": WARP_SIZE}
        return {**facts, "code": self.code} if self.code else facts

    @property
    def keys(self) -> tuple[str, ...]:
        """The groups of targets that it belongs to."""
        return ("cpu",) if self.kind == "cpu" else (str(self.kind), "gpu")

    def export(self) -> dict[str, object]:
        """The target as a mapping that `target=` takes."""
        if self.kind == "cpu":
            return {"kind": "cpu"}
        return {"kind": str(self.kind), "arch": self.arch, **({"code": list(self.code)} if self.code else {})}

    def has(self, features: Feature) -> bool:
        """Whether a GPU target can do all of these."""
        return features in self.architecture.features


TargetLike = str | Mapping[str, object] | Target | None

ALIASES: Mapping[str, str] = MappingProxyType(
    {"cpu": "cpu", "c": "cpu", "llvm": "cpu", "host": "cpu", "cuda": "cuda", "nvptx": "cuda", "cutedsl": "cuda"}
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
# names of published TileLang for ways to call compiled code, all of which mean the one there is
_COMPILED_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"cpu": ("tvm_ffi", "cython", "ctypes"), "cuda": ("tvm_ffi", "cython", "ctypes", "cutedsl")}
)


def parse_target(value: TargetLike = None) -> Target:
    """The target that a user means.

    Raises:
        TargetError: The name, the mapping or the architecture means nothing.
        NoLowering: The family is known, but this version cannot compile for it.
    """
    if isinstance(value, Target):
        return value
    if value is None or value == "auto":
        return _parse(environment(_DEFAULT_TARGET), _DEFAULT_TARGET)
    return _parse(value, "target")


_DEFAULT_TARGET = "TILELANG_DEFAULT_TARGET"
_EXAMPLE = "{'kind': 'cuda', 'arch': 'sm_90a'}"


def _parse(value: object, what: str) -> Target:
    if isinstance(value, Mapping):
        return _from_mapping(value, what)
    if not isinstance(value, str):
        raise TargetError(
            f"{what}: expected a name or a mapping with 'kind', got {value!r:.60}",
            hint=f"write target='cpu' or target={_EXAMPLE}",
        )
    text = value.strip()
    if text.startswith("{"):
        import json  # noqa: PLC0415  few write it
        try:
            return _from_mapping(json.loads(text), what)
        except json.JSONDecodeError as error:
            raise TargetError(
                f"{what}: {text!r} is not valid JSON: {error}",
                hint="""Use JSON syntax: '{"kind": "cuda", "arch": "sm_90a"}'""",
            ) from None
    if len(text.split()) > 1:
        raise TargetError(
            f"{what}: {text!r} is not the name of a target",
            hint=f"Pass target options as a dict, such as {_EXAMPLE}",
        )
    return _from_name(text, "native", (), what)


_FIELDS = ("kind", "arch", "code")
_IGNORED_FIELDS = ("keys", "tag", "mcpu", "num-cores", "max_num_threads", "thread_warp_size")  # which decide nothing


def _from_mapping(value: Mapping[str, object], what: str) -> Target:
    def refused(why: str, meant: str = DEFAULT_ARCH) -> TargetError:
        example = {"kind": "cuda", "arch": meant}
        return TargetError(f"{what}: {dict(value)!r} {why}", hint=f"a valid target config dict is {example}")

    kind, arch, code = (value.get(name, default) for name, default in zip(_FIELDS, (None, "native", ()), strict=True))
    if not isinstance(kind, str):
        raise refused("has no 'kind'")
    for key in value:
        if key not in _FIELDS and key not in _IGNORED_FIELDS:
            raise refused(f"has the unknown field {key!r}")
    if not isinstance(arch, str):
        near = [name for name, known in ARCHITECTURES.items() if str(known.number) == str(arch).replace(".", "")]
        raise refused("has an 'arch' that is no text", near[-1] if near else DEFAULT_ARCH)
    if not isinstance(code, list | tuple) or not all(isinstance(name, str) for name in code):
        raise refused("has a 'code' that is no list of texts")
    return _from_name(kind, arch, tuple(code), what)


def _from_name(name: str, arch: str, code: tuple[str, ...], what: str) -> Target:
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
        raise _unknown_name(what, name)
    if ALIASES[name] == "cuda":
        return Target("cuda", _cuda_arch(arch, what), tuple(_code_of(_cuda_arch(arch, what), code, what)))
    if arch != "native" or code:
        given = f"arch {arch!r}" if arch != "native" else f"code {list(code)!r}"
        raise TargetError(
            f"{what}: unknown {given} of 'cpu'",
            hint="leave it out: code is made for the processor at hand; a valid target config dict is {'kind': 'cpu'}",
        )
    return Target(ALIASES[name])


def _unknown_name(what: str, name: str) -> TargetError:
    other = {"gpu": "cuda", "nvidia": "cuda", "x86": "cpu"}.get(name.lower(), name.lower())
    near = nearest(other, ["auto", *ALIASES, *ABSENT], 0.5)
    meant = f"did you mean {near!r}? " if near else ""
    syntax = "Use JSON syntax" if what == _DEFAULT_TARGET else "Pass target options as a dict"
    example = """'{"kind": "cuda", "arch": "sm_90a"}'""" if what == _DEFAULT_TARGET else _EXAMPLE
    return TargetError(f"{what}: unknown name {name!r}", hint=f"{meant}{syntax}, such as {example}")


def _cuda_arch(arch: str, what: str) -> str:
    if arch == "native":
        return present_arch() or DEFAULT_ARCH
    if arch in ARCHITECTURES:
        return arch
    near = nearest(arch.lower(), ARCHITECTURES, 0.5)
    known = ", ".join(ARCHITECTURES)
    raise TargetError(
        f"{what}: unknown arch {arch!r} of 'cuda'; the known ones are {known}",
        hint=f"a valid target config dict is {{'kind': 'cuda', 'arch': {near or DEFAULT_ARCH!r}}}",
    )


def _code_of(arch: str, code: tuple[str, ...], what: str) -> Iterator[str]:
    """The GPUs that the user names besides an architecture, if code for it runs on them.

    Source: as for `arch_of`.
    """
    base = ARCHITECTURES[arch]
    for name in code:
        row = ARCHITECTURES.get(name)
        same = row is not None and row.number // 10 == base.number // 10 and row.number >= base.number
        if row is None or not same or (arch.endswith("a") and row.number != base.number):
            raise TargetError(
                f"{what}: 'code' names {name!r}, which does not run code for {arch!r}",
                hint=f"leave 'code' out; a valid target config dict is {{'kind': 'cuda', 'arch': {name!r}}}",
            )
        yield name


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
    plain = [a for a in fitting if not a.name.endswith(("a", "f"))]
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


_KERNEL_MODULE, _NODES = "/proc/driver/nvidia", "/dev"
_RECORD = "devices.json"  # in the cache folder


def _devices_seen() -> list[str] | None:
    """Texts that change whenever the answer of `_ask_management` may; None where there are none, or devices differ.

    Reading them takes a tenth of the time that the management library takes to answer.
    """
    from pathlib import Path  # noqa: PLC0415  asked by those who compile for the GPU at hand
    try:
        devices = [path.read_text() for path in sorted(Path(_KERNEL_MODULE).glob("gpus/*/information"))]
        version = Path(_KERNEL_MODULE, "version").read_text()
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
    import json  # noqa: PLC0415  as above
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
    import json  # noqa: PLC0415  as above
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
    if name == "auto" or name in _COMPILED_NAMES[target.kind]:
        return allowed[0]
    if name in allowed:
        return name
    ways = ", ".join(_MEANINGS[other] for other in allowed if other in _MEANINGS)
    family = "CPU" if target.kind == "cpu" else target.kind.upper()
    raise OptionError(
        f"{what}: Invalid execution backend {name!r} for the {family} target", hint=f"write {ways}, or 'auto'"
    )
