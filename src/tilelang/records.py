"""Classes that are nothing but their fields, as `dataclasses` makes them, but made in a tenth of the time.

Takes a class with annotated fields, gives the same class with what its fields call for. Invariant: `match`, type
checkers, and `fields`, `replace` and `asdict` of `dataclasses` know records as dataclasses. Importing this package
defines hundreds of them; so no code is compiled for a record before the first one is made, only for `__init__`, and
once for all classes of the same shape.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, field
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**facts: Any) -> Callable[[T], T]:
        """The declaration of `record` that type checkers need; it does nothing when the program runs."""
        return lambda decorator: decorator


T = TypeVar("T")

class _MadeAnew:
    """Stands for a value that a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE_ANEW: Any = _MadeAnew()


@overload
def record(cls: type[T], /) -> type[T]: ...


@overload
def record(
    *, frozen: bool = True, eq: bool = True, repr: bool = True, slots: bool = False, kw_only: bool = False
) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(
    cls: Any = None,
    /,
    *,
    frozen: bool = True,
    eq: bool = True,
    repr: bool = True,
    slots: bool = False,
    kw_only: bool = False,
) -> Any:
    """Makes a class a record: fields are given to the constructor in order, and nothing changes them later.

    Args:
        cls: The class.
        frozen: Whether fields cannot be assigned to.
        eq: Whether records of equal fields are equal, and frozen ones hash alike; else each equals itself only.
        repr: Whether the text of a record shows its fields.
        slots: Whether records have their fields and no other attributes.
        kw_only: Whether fields must be given by name.
    """
    if cls is None:
        return lambda c: _made(c, frozen, eq, repr, slots, kw_only)
    return _made(cls, frozen, eq, repr, slots, kw_only)


def _made(cls: Any, frozen: bool, eq: bool, shown: bool, slots: bool, kw_only: bool) -> Any:
    cls.__doc__ = cls.__doc__ or cls.__name__
    own_hash = cls.__dict__.get("__hash__") is not None
    fields = _fields_of(cls, kw_only)
    if slots:
        cls = _with_slots(cls, list(fields))
    # what `dataclasses` and `match` look at
    cls.__dataclass_fields__, cls.__dataclass_params__ = fields, _PARAMS
    if "__match_args__" not in cls.__dict__:
        cls.__match_args__ = tuple(f.name for f in fields.values() if f.init and not f.kw_only)  # type: ignore[misc]
    if "__init__" not in cls.__dict__:
        cls.__init__ = _Init(cls, frozen, slots)
    if shown and "__repr__" not in cls.__dict__:
        cls.__repr__ = _shown
    if eq:
        values = _values([name for name, f in fields.items() if f.compare])
        if "__eq__" not in cls.__dict__:
            cls.__eq__ = _equality(values)
        if not own_hash:
            cls.__hash__ = _hash(values) if frozen else None
    if frozen:
        cls.__setattr__, cls.__delattr__ = _refuse_assignment, _refuse_deletion
    return cls


@dataclasses.dataclass(init=False, repr=False, eq=False)
class _Sample:
    """Has what every dataclass has."""

    x: int


_PARAMS, _FIELD = _Sample.__dataclass_params__, _Sample.__dataclass_fields__["x"]._field_type  # type: ignore[attr-defined]


def _fields_of(cls: Any, kw_only: bool) -> dict[str, Any]:
    """The fields of a class by name, those of its bases first; their defaults become attributes of the class."""
    fields: dict[str, Any] = {}
    for base in cls.__mro__[-1:0:-1]:
        fields.update(base.__dict__.get("__dataclass_fields__", ()))
    for name, kind in cls.__annotations__.items():
        if "ClassVar" in (kind if isinstance(kind, str) else repr(kind)).partition("[")[0]:
            continue
        given = cls.__dict__.get(name, MISSING)
        f: Any = given if isinstance(given, dataclasses.Field) else field(default=given)
        if f.default.__class__.__hash__ is None:
            raise ValueError(f"mutable default {type(f.default)} for field {name} is not allowed: use default_factory")
        f.name, f.type, f._field_type = name, kind, _FIELD
        if f.kw_only is MISSING:
            f.kw_only = kw_only
        if f is given and f.default is MISSING:
            delattr(cls, name)
        elif f is given:
            setattr(cls, name, f.default)
        fields[name] = f
    return fields


def _with_slots(cls: Any, names: list[str]) -> Any:
    """The class again, with slots for its fields; a class cannot get them later."""
    inherited = {name for base in cls.__mro__[1:-1] for name in base.__dict__.get("__slots__", ())}
    members = {name: value for name, value in cls.__dict__.items() if name not in ("__dict__", "__weakref__", *names)}
    members["__slots__"] = tuple(name for name in names if name not in inherited)
    slotted = type(cls)(cls.__name__, cls.__bases__, members)
    slotted.__qualname__ = cls.__qualname__
    return slotted


class _Init:
    """The constructor of a record, generated on first use."""

    def __init__(self, cls: Any, frozen: bool, slots: bool) -> None:
        self._cls, self._frozen, self._slots = cls, frozen, slots

    def __get__(self, instance: object, owner: Any) -> Any:
        constructor = self._cls.__init__ = _constructor(self._cls, self._frozen, self._slots)
        return constructor if instance is None else constructor.__get__(instance)


def _constructor(cls: Any, frozen: bool, slots: bool) -> Any:
    """The constructor of a class: that of its shape with the names of its fields in the place of numbered ones."""
    fields = [f for f in cls.__dataclass_fields__.values() if f.init or not _is_missing(f)]
    fields.sort(key=lambda f: (not f.init, f.kw_only))  # those given in order, those given by name, the others
    given = [f for f in fields if f.init]
    named = [f.name for f in given if f.kw_only]
    made = tuple([f.default_factory is not MISSING for f in fields])
    code = _code_of_shape(made, len(given), frozen, slots, hasattr(cls, "__post_init__"))
    names: dict[Any, Any] = {f"f{n}": f.name for n, f in enumerate(fields)}
    code = code.replace(
        co_argcount=1 + len(given) - len(named),
        co_kwonlyargcount=len(named),
        co_varnames=tuple(map(names.get, code.co_varnames, code.co_varnames)),
        co_names=tuple(map(names.get, code.co_names, code.co_names)),
        co_consts=tuple(map(names.get, code.co_consts, code.co_consts)),
    )
    known: dict[str, Any] = {"_anew": _MADE_ANEW, "__builtins__": {}}
    if slots:
        known |= {f"_set_{number}": getattr(cls, name).__set__ for number, name in names.items()}
    defaults = {}
    for n, (f, by_factory) in enumerate(zip(fields, made, strict=True)):
        if by_factory:
            known[f"_make_f{n}"] = f.default_factory
        elif not f.init:
            known[f"_default_f{n}"] = f.default
        if f.init and (by_factory or f.default is not MISSING):
            defaults[f.name] = _MADE_ANEW if by_factory else f.default
    by_name = {name: defaults.pop(name) for name in named if name in defaults}
    constructor = FunctionType(code, known, "__init__", tuple(defaults.values()))
    constructor.__kwdefaults__ = by_name
    constructor.__qualname__, constructor.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    constructor.__annotations__ = {**{f.name: f.type for f in given}, "return": None}
    return constructor


def _is_missing(f: Any) -> bool:
    """Whether a field has no default."""
    return f.default is MISSING and f.default_factory is MISSING


@functools.cache
def _code_of_shape(made: tuple[bool, ...], given: int, frozen: bool, slots: bool, post_init: bool) -> CodeType:
    """The code of a constructor that calls its fields f0, f1, ...

    Args:
        made: For each field, whether a factory makes its default.
        given: How many of them are arguments; the others come last.
        frozen: Whether the class refuses assignments.
        slots: Whether its fields are slots, which are assigned by their descriptors.
        post_init: Whether there is more to do.
    """
    parameters = ["self"]
    body = ["_fields = self.__dict__"] if frozen and made and not slots else []  # around `__setattr__`, which refuses
    for n, by_factory in enumerate(made):
        name = f"f{n}"
        value = name if n < given else f"_default_{name}"
        if by_factory:
            value = f"_make_{name}() if {name} is _anew else {name}" if n < given else f"_make_{name}()"
        if n < given:
            parameters.append(name)
        if not frozen:
            body.append(f"self.{name} = {value}")
        else:
            body.append(f"_set_{name}(self, {value})" if slots else f"_fields[{name!r}] = {value}")
    if post_init:
        body.append("self.__post_init__()")
    known: dict[str, Any] = {}
    exec(f"def __init__({', '.join(parameters)}):\n    " + "\n    ".join(body or ["pass"]), known)
    code: CodeType = known["__init__"].__code__
    return code


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Gives the fields of a record as a tuple."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _equality(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, Any], bool]:
    def __eq__(self: Any, other: Any) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _shown(self: Any) -> str:
    fields = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{self.__class__.__qualname__}({', '.join(fields)})"


def _refuse_assignment(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
