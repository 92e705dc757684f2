"""What we compile for: the names users write, and the record they stand for.

Takes "auto", a name, a JSON text, a mapping, None; gives a `Target`. Invariant: a `Target` that exists can be compiled
for by this version.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilelang.dtypes import unknown_name
from tilelang.errors import NoLowering, OptionError
from tilelang.options import environment


class Feature(enum.Flag):
    """What a GPU can do beyond the instructions that all of them have."""

    NONE = 0
    MMA_F16 = enum.auto()  # mma.sync m16n8k8 on float16, ldmatrix
    MMA_INT8 = enum.auto()  # mma.sync m8n8k16 on int8, m8n8k32 on int4
    MMA_AMPERE = enum.auto()  # mma.sync m16n8k16, bfloat16, tf32, float64 m8n8k4, int8 m16n8k32
    MMA_FLOAT8 = enum.auto()  # mma.sync m16n8k32 on float8
    CP_ASYNC = enum.auto()  # global -> shared without registers
    STMATRIX = enum.auto()
    CONVERT_FLOAT8 = enum.auto()  # cvt to and from float8 in one instruction
    BFLOAT16_MATH = enum.auto()  # bfloat16 conversion and arithmetic instructions
    REDUX = enum.auto()  # redux.sync on integers
    MBARRIER = enum.auto()
    CLUSTER = enum.auto()
    TMA = enum.auto()
    WGMMA = enum.auto()  # and setmaxnreg; only in sm_90a


@dataclass(frozen=True, slots=True)
class Architecture:
    """One row of the table of GPUs.

    Attributes:
        name: As compilers spell it.
        features: What it can do.
        shared_bytes: Shared memory a block may have.
        shared_bytes_per_sm: Shared memory of a multiprocessor.
        threads_per_sm: Threads a multiprocessor holds.
        blocks_per_sm: Blocks a multiprocessor holds.

    Source: CUDA C++ Programming Guide, "Compute Capabilities", technical specifications per compute capability; the
    features from the PTX ISA, "Target ISA Notes" of each instruction.
    """

    name: str
    features: Feature
    shared_bytes: int
    shared_bytes_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int

    @property
    def number(self) -> int:
        """90 of "sm_90a"."""
        return int(self.name.removeprefix("sm_").rstrip("af"))


MAX_THREADS = 1024  # per block; Source: CUDA C++ Programming Guide, "Compute Capabilities"
REGISTERS_PER_SM = 65536  # of 32 bits
MAX_REGISTERS = 255  # per thread
WARP_SIZE = 32

_TURING = Feature.MMA_F16 | Feature.MMA_INT8
_AMPERE = (
    _TURING | Feature.MMA_AMPERE | Feature.CP_ASYNC | Feature.BFLOAT16_MATH | Feature.REDUX | Feature.MBARRIER
)
_ADA = _AMPERE | Feature.MMA_FLOAT8 | Feature.CONVERT_FLOAT8
_HOPPER = _ADA | Feature.STMATRIX | Feature.CLUSTER | Feature.TMA
_KIB = 1024

ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        row.name: row
        for row in (
            Architecture("sm_75", _TURING, 64 * _KIB, 64 * _KIB, 1024, 16),
            Architecture("sm_80", _AMPERE, 163 * _KIB, 164 * _KIB, 2048, 32),
            Architecture("sm_86", _AMPERE, 99 * _KIB, 100 * _KIB, 1536, 16),
            Architecture("sm_87", _AMPERE, 163 * _KIB, 164 * _KIB, 1536, 16),
            Architecture("sm_89", _ADA, 99 * _KIB, 100 * _KIB, 1536, 24),
            Architecture("sm_90", _HOPPER, 227 * _KIB, 228 * _KIB, 2048, 32),
            Architecture("sm_90a", _HOPPER | Feature.WGMMA, 227 * _KIB, 228 * _KIB, 2048, 32),
            Architecture("sm_100", _HOPPER, 227 * _KIB, 228 * _KIB, 2048, 32),
            Architecture("sm_100a", _HOPPER, 227 * _KIB, 228 * _KIB, 2048, 32),
            Architecture("sm_103a", _HOPPER, 227 * _KIB, 228 * _KIB, 2048, 32),
            Architecture("sm_120", _HOPPER, 99 * _KIB, 100 * _KIB, 1536, 24),
            Architecture("sm_120a", _HOPPER, 99 * _KIB, 100 * _KIB, 1536, 24),
        )
    }
)


@dataclass(frozen=True, slots=True)
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

ALIASES: Mapping[str, str] = MappingProxyType({"cpu": "cpu", "c": "cpu", "llvm": "cpu", "host": "cpu"})
ABSENT = ("cuda", "hip", "rocm", "metal", "webgpu")  # families of the language that this version cannot compile for

EXECUTION_BACKENDS = ("auto", "cc", "reference")
ABSENT_BACKENDS = ("simulator", "nvrtc", "nvcc", "cython", "ctypes", "dlpack", "tvm_ffi", "torch")


def parse_target(value: TargetLike = None) -> Target:
    """The target that a user means.

    Raises:
        OptionError: The name or the mapping means nothing.
        NoLowering: The family is known, but this version cannot compile for it.
    """
    if isinstance(value, Target):
        return value
    if value is None or value == "auto":
        default = environment("TILELANG_DEFAULT_TARGET")
        return Target("cpu") if default == "auto" else _parse(default, "TILELANG_DEFAULT_TARGET")
    return _parse(value, "target")


def _parse(value: object, what: str) -> Target:
    if isinstance(value, Mapping):
        return _from_mapping(value, what)
    if not isinstance(value, str):
        raise OptionError(
            f"{what}: expected a name or a mapping with 'kind', got {value!r}",
            hint="write target='cpu' or target={'kind': 'cpu'}",
        )
    text = value.strip()
    if text.startswith("{"):
        try:
            return _from_mapping(json.loads(text), what)
        except json.JSONDecodeError as error:
            raise OptionError(
                f"{what}: {text!r} is not valid JSON: {error}", hint="""write '{"kind": "cpu"}'"""
            ) from None
    return _from_name(text.split()[0] if text else text, "native", what)


def _from_mapping(value: Mapping[str, object], what: str) -> Target:
    kind = value.get("kind")
    if not isinstance(kind, str):
        raise OptionError(f"{what}: {dict(value)!r} has no 'kind'", hint="write {'kind': 'cpu'}")
    for key in value:
        if key not in ("kind", "arch", "keys", "tag", "mcpu", "num-cores"):
            raise OptionError(
                f"{what}: unknown field {key!r} in {dict(value)!r}", hint="the fields are 'kind' and 'arch'"
            )
    arch = value.get("arch", "native")
    if not isinstance(arch, str):
        raise OptionError(f"{what}: 'arch' must be a text, got {arch!r}")
    return _from_name(kind, arch, what)


def _from_name(name: str, arch: str, what: str) -> Target:
    if name == "auto":
        return Target("cpu")
    if name in ABSENT or name.startswith("sm_"):
        raise NoLowering(
            f"{what}: {name!r} is not available; this version compiles for the CPU only",
            hint="write target='cpu', or target='auto' to take the best target present",
        )
    if name not in ALIASES:
        raise unknown_name(what, name, ["auto", *ALIASES, *ABSENT])
    if arch != "native":
        raise OptionError(f"{what}: unknown arch {arch!r} of 'cpu'", hint="leave 'arch' out; 'native' is the only one")
    return Target(ALIASES[name])


def parse_execution_backend(value: str | None = None) -> str:
    """The execution backend that a user means: "cc" (a compiled kernel) or "reference".

    Raises:
        OptionError: The name means nothing, or belongs to a target that is not there.
    """
    name = value
    if name is None or name == "auto":
        name = environment("TILELANG_EXECUTION_BACKEND")
    if name == "auto":
        return "cc"
    if name in EXECUTION_BACKENDS:
        return name
    if name in ABSENT_BACKENDS:
        raise OptionError(
            f"execution_backend: {name!r} does not run on the CPU target",
            hint="write 'cc' for compiled code, 'reference' for the interpreter, or 'auto'",
        )
    raise unknown_name("execution_backend", str(name), [*EXECUTION_BACKENDS, *ABSENT_BACKENDS])
