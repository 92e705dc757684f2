"""What we compile for: the names users write, and the record they stand for.

Takes "auto", a name, a JSON text, a mapping, None; gives a `Target`. Invariant: a `Target` that exists can be compiled
for by this version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilelang.dtypes import unknown_name
from tilelang.errors import NoLowering, OptionError
from tilelang.options import environment


@dataclass(frozen=True, slots=True)
class Target:
    """A machine to compile for.

    Attributes:
        kind: The family, which picks the backend: "cpu".
        arch: The member of the family; "native" is the machine at hand.
    """

    kind: str
    arch: str = "native"

    def __str__(self) -> str:
        return self.kind if self.arch == "native" else f"{self.kind}:{self.arch}"


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
