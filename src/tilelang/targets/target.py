"""Targets of the compiler: the names users write, and the record they stand for.

Takes "auto", a name, a JSON text, a mapping, None; gives a `Target` and the way to run on it. Invariant: a `Target`
that exists can be compiled for by this version; a driver is asked for its devices only where that decides something.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from tilelang.environment import environment
from tilelang.errors import NoLowering, OptionError, TargetError, nearest
from tilelang.records import record
from tilelang.targets.family import NATIVE, Family
from tilelang.targets.machine import Machine
from tilelang.targets.registry import families, family_of, is_kind


class TargetKind(str):
    """A family of machines: a text such as "cpu", with the name that published TileLang has for it."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The same text, but "c" for the CPU."""
        return family_of(self).published


@record(slots=True)
class Target:
    """A machine to compile for; `with target:` makes it what "auto" and None mean inside.

    Attributes:
        kind: The family, which picks the backend: "cpu", "cuda" or "hip".
        arch: The member of the family: the name of a machine, or "native" for the CPU at hand.
        code: The GPUs that the user named besides, all of which run code for `arch`.
    """

    kind: TargetKind
    arch: str
    code: tuple[str, ...]

    def __init__(self, kind: str, arch: str = NATIVE, code: Sequence[str] = ()) -> None:
        for name, value in (("kind", TargetKind(kind)), ("arch", arch), ("code", tuple(code))):
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return str(self.kind) if self.arch == NATIVE else f"{self.kind}:{self.arch}"

    def __enter__(self) -> Target:
        _ENTERED.set((*_ENTERED.get(), self))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _ENTERED.set(_ENTERED.get()[:-1])

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the innermost `with` around, or None outside of all.

        Raises:
            TargetError: There is none, and `allow_none` is False.
        """
        entered = _ENTERED.get()
        if not entered and not allow_none:
            raise TargetError("Target.current: there is no `with target:` around", hint="write determine_target()")
        return entered[-1] if entered else None

    @property
    def family(self) -> Family:
        """The vendor's family of targets of the kind."""
        return family_of(self.kind)

    @property
    def machine(self) -> Machine:
        """The figures of the machine."""
        return self.family.machines[self.arch]

    @property
    def is_gpu(self) -> bool:
        """Whether programs are blocks of threads."""
        return self.family.is_gpu

    @property
    def attrs(self) -> dict[str, object]:
        """The attributes of a GPU target: "arch", "max_num_threads" of a block, "thread_warp_size", "code" if given."""
        if not self.is_gpu:
            return {}
        machine = self.machine
        facts = {"arch": self.arch, "max_num_threads": machine.max_threads, "thread_warp_size": machine.warp_size}
        return {**facts, "code": self.code} if self.code else facts

    @property
    def keys(self) -> tuple[str, ...]:
        """The groups of targets that it belongs to."""
        return self.family.keys

    def export(self) -> dict[str, object]:
        """The target as a mapping that `target=` takes."""
        named = {} if self.arch == NATIVE else {"arch": self.arch}
        return {"kind": str(self.kind), **named, **({"code": list(self.code)} if self.code else {})}

    def has(self, features: enum.Flag) -> bool:
        """Whether the machine can do all of these."""
        return self.machine.has(features)


_ENTERED: ContextVar[tuple[Target, ...]] = ContextVar("targets", default=())
entered_targets = _ENTERED.get
"""The targets of the `with` statements around, the innermost last."""

TargetLike = str | Mapping[str, object] | Target | None

ABSENT = ("metal", "webgpu")  # families of the language that a version may have no vendor for


def parse_target(value: TargetLike = None) -> Target:
    """The target that a user means.

    Raises:
        TargetError: The name, the mapping or the machine means nothing.
        NoLowering: The family is known, but this version cannot compile for it.
    """
    if isinstance(value, Target):
        return value
    if value is None or value == "auto":
        return Target.current() or _parse(environment(_DEFAULT_TARGET), _DEFAULT_TARGET)
    return _parse(value, "target")


def present_target() -> Target | None:
    """The first GPU at hand, or None without one."""
    for family in families().values():
        present = family.present() if family.is_gpu else None
        if present is not None:
            return Target(family.kind, present)
    return None


def present_runtime() -> Any:
    """The runtime of the first GPU at hand: a `DeviceRuntime`; without one, that of the first vendor."""
    present = present_target()
    family = next(family for family in families().values() if family.is_gpu) if present is None else present.family
    return family.device_runtime()


_DEFAULT_TARGET = "TILELANG_DEFAULT_TARGET"


def _example(given: str = "") -> Mapping[str, str]:
    """A mapping that means a target, like what was given: a kind, and options in another syntax."""
    kind, *options = given.replace("=", " ").split() or [""]
    family = _aliases().get(kind) or next(iter(families().values()))
    arch = next((option for option in options if option in family.machines), None)
    return family.example if arch is None else {"kind": family.kind, "arch": arch}


def _as_json(example: Mapping[str, str]) -> str:
    """Return a mapping as a user writes it in a text."""
    return "'" + repr(example).replace("'", '"') + "'"


def _aliases() -> Mapping[str, Family]:
    """The families by all names that users write for them."""
    return {name: family for family in families().values() for name in family.aliases}


def _parse(value: object, what: str) -> Target:
    if isinstance(value, Mapping):
        return _from_mapping(value, what)
    if not isinstance(value, str):
        raise TargetError(
            f"{what}: expected a name or a mapping with 'kind', got {value!r:.60}",
            hint=f"write target='cpu' or target={_example()}",
        )
    text = value.strip()
    if text.startswith("{"):
        import json  # noqa: PLC0415  few write it
        try:
            return _from_mapping(json.loads(text), what)
        except json.JSONDecodeError as error:
            raise TargetError(
                f"{what}: {text!r} is not valid JSON: {error}",
                hint=f"Use JSON syntax: {_as_json(_example())}",
            ) from None
    if len(text.split()) > 1 and _meant(text) is None:
        raise TargetError(
            f"{what}: {text!r} is not the name of a target",
            hint=f"Pass target options as a dict, such as {_example(text)}",
        )
    return _from_name(text, NATIVE, (), what)


_ALIKE = 0.5  # of names, from 0 to 1
_FIELDS = ("kind", "arch", "code")
_IGNORED_FIELDS = ("keys", "tag", "mcpu", "num-cores", "max_num_threads", "thread_warp_size")  # which decide nothing


def _from_mapping(value: Mapping[str, object], what: str) -> Target:
    kind, arch, code = (value.get(name, default) for name, default in zip(_FIELDS, (None, NATIVE, ()), strict=True))

    def refused(why: str, example: Mapping[str, str] | None = None) -> TargetError:
        hint = f"a valid target config dict is {example or _example(str(kind))}"
        return TargetError(f"{what}: {dict(value)!r} {why}", hint=hint)

    if not isinstance(kind, str):
        raise refused("has no 'kind'")
    for key in value:
        if key not in _FIELDS and key not in _IGNORED_FIELDS:
            raise refused(f"has the unknown field {key!r}")
    if not isinstance(arch, str):
        raise refused("has an 'arch' that is no text", _numbered(str(arch).replace(".", "")))
    if not isinstance(code, list | tuple) or not all(isinstance(name, str) for name in code):
        raise refused("has a 'code' that is no list of texts")
    return _from_name(kind, arch, tuple(code), what)


def _meant(name: str) -> Mapping[str, str] | None:
    """The target mapping for a device or a machine that is named in another way: "H100", "RTX 4090", "sm90", "9.0"."""
    plain = name.lower().translate(str.maketrans("", "", " _-."))
    for family in families().values():
        if plain in family.products:
            return {"kind": family.kind, "arch": family.products[plain]}
    return _numbered(plain.removeprefix("compute").removeprefix("sm"))


def _numbered(digits: str) -> Mapping[str, str] | None:
    """The target mapping for a machine that is named by a number."""
    for family in families().values():
        for name in reversed(family.machines):
            if family.prefix and name.removeprefix(family.prefix).rstrip("abcdefghijklmnopqrstuvwxyz") == digits:
                return {"kind": family.kind, "arch": name}
    return None


def _from_name(name: str, arch: str, code: tuple[str, ...], what: str) -> Target:
    if name == "auto":
        return present_target() or Target("cpu")
    found = family_of(name) if is_kind(name) else None
    if found is None:
        for family in families().values():
            if family.prefix and name.startswith(family.prefix):
                name, arch = family.kind, name if arch == NATIVE else arch
        found = _aliases().get(name)
    if found is not None:
        machine = _machine(found, arch, code, what)
        _check_code(found, machine, code, what)
        return Target(found.kind, machine.name, code)
    if name in ABSENT:
        names = ", ".join(f"target={kind!r}" for kind in families())
        raise NoLowering(
            f"{what}: {name!r} is not available; this version compiles for "
            + " and for ".join(family.title for family in families().values()),
            hint=f"write {names}, or target='auto' to take the best target present",
        )
    raise _unknown_name(what, name)


def _unknown_name(what: str, name: str) -> TargetError:
    device = _meant(name)
    backends = {way for family in families().values() for way in family.execution_backends}
    nicknames = {nickname: family.kind for family in families().values() for nickname in family.nicknames}
    near = nearest(nicknames.get(name.lower(), name.lower()), ["auto", *_aliases(), *ABSENT], 0.5)
    names = f"write 'auto', {', '.join(map(repr, families()))} or the name of a machine. "
    meant = f"did you mean {near!r}? " if near else names
    if device is not None:
        meant = f"write {device['arch']!r}. "
    elif name in backends:
        meant = f"write execution_backend={name!r}; the target is the machine that it stands for. "
    by_text = what == _DEFAULT_TARGET
    syntax = "Use JSON syntax" if by_text else "Pass target options as a dict"
    example = _as_json(_example()) if by_text else _example()
    return TargetError(f"{what}: unknown name {name!r}", hint=f"{meant}{syntax}, such as {example}")


def _machine(family: Family, arch: str, code: tuple[str, ...], what: str) -> Machine:
    """The machine that a user means.

    Raises:
        TargetError: There is no such machine, or one is named where only that at hand is meant.
    """
    machines = family.machines
    if NATIVE in machines and (arch != NATIVE or code):
        given = f"arch {arch!r}" if arch != NATIVE else f"code {list(code)!r}"
        raise TargetError(
            f"{what}: unknown {given} of {family.kind!r}",
            hint="leave it out: code is generated for this processor; a valid target config dict is "
            f"{family.example}",
        )
    if arch == NATIVE:
        present = family.present()
        if present is None and family.must_be_named:
            raise TargetError(
                f"{what}: {str(family.kind)!r} without 'arch' means the device at hand, and no device is found; "
                f"the known machines are {', '.join(machines)}",
                hint=f"name the one to compile for: a valid target config dict is {family.example}",
            )
        return machines[present or family.default]
    if arch in machines:
        return machines[arch]
    device = _meant(arch)
    near = _nearest_machine(arch.lower(), machines) or family.default
    if device is not None and device["arch"] in machines:
        near = device["arch"]
    raise TargetError(
        f"{what}: unknown arch {arch!r} of {family.kind!r}; the known ones are {', '.join(machines)}",
        hint=f"a valid target config dict is {({'kind': family.kind, 'arch': near})}",
    )


def _nearest_machine(name: str, machines: Iterable[str]) -> str:
    """The machine that is most like one that is not known, first of all in how its name begins: as generations do."""
    import difflib  # noqa: PLC0415  most names are known

    def likeness(machine: str) -> tuple[int, float]:
        return len(os.path.commonprefix([name, machine])), difflib.SequenceMatcher(None, name, machine).ratio()

    found = max(machines, key=likeness)
    return found if likeness(found)[1] >= _ALIKE else ""


def _check_code(family: Family, machine: Machine, code: tuple[str, ...], what: str) -> None:
    """Refuses machines that the user names besides one whose code they do not run."""
    for name in code:
        other = family.machines.get(name)
        if other is None or not family.runs_on(machine, other):
            raise TargetError(
                f"{what}: 'code' names {name!r}, which does not run code for {machine.name!r}",
                hint=f"leave 'code' out; a valid target config dict is {({'kind': family.kind, 'arch': name})}",
            )


def parse_execution_backend(value: str | None = None, target: Target = Target("cpu")) -> str:
    """The execution backend that a user means for a target.

    Raises:
        OptionError: The name means nothing, or does not run kernels of this target.
    """
    family = target.family
    allowed = family.execution_backends
    name, what = value, "execution_backend"
    if name is None or name == "auto":
        name, what = environment("TILELANG_EXECUTION_BACKEND"), "TILELANG_EXECUTION_BACKEND"
    if name == "auto" or name in family.compiled_names:
        return family.default_execution_backend
    if name in allowed:
        return name
    ways = ", ".join(explanation for explanation in allowed.values() if explanation)
    raise OptionError(
        f"{what}: Invalid execution backend {name!r} for the {target.kind.upper()} target",
        hint=f"write {ways}, or 'auto'",
    )
