"""Classes that are nothing but their fields, as `dataclasses` makes them, but made in a tenth of the time.

Takes a class with annotated fields, gives the same class with what its fields call for. Invariant: `match`, type
checkers, and `fields`, `replace` and `asdict` of `dataclasses` know records as dataclasses. Importing this package
defines hundreds of them; so no code is compiled for a record before the first one is made, and only for `__init__`.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, field
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**facts: Any) -> Callable[[T], T]:
        """What type checkers must know of `record`; nothing when the program runs."""
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
    cls.__doc__ = cls.__doc__ or cls.__name__  # without, a signature would be worked out in its place
    own_hash = cls.__dict__.get("__hash__") is not None
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    if "__init__" not in cls.__dict__:
        cls.__init__ = _Init(cls, frozen)
    names = [f.name for f in dataclasses.fields(cls)]
    if shown and "__repr__" not in cls.__dict__:
        cls.__repr__ = _shown
    if eq:
        values = _values(names)
        if "__eq__" not in cls.__dict__:
            cls.__eq__ = _equality(values)
        if not own_hash:
            cls.__hash__ = _hash(values) if frozen else None
    if frozen:
        cls.__setattr__, cls.__delattr__ = _refuse_assignment, _refuse_deletion
    return cls


class _Init:
    """The constructor of a record, written when it is asked for."""

    def __init__(self, cls: Any, frozen: bool) -> None:
        self._cls, self._frozen = cls, frozen

    def __get__(self, instance: object, owner: Any) -> Any:
        made = self._cls.__init__ = _constructor(self._cls, self._frozen)
        return made if instance is None else made.__get__(instance)


def _constructor(cls: Any, frozen: bool) -> Any:
    known: dict[str, Any] = {"_assign": object.__setattr__, "_anew": _MADE_ANEW}
    positional: list[str] = ["self"]
    named: list[str] = []
    body: list[str] = []
    for f in dataclasses.fields(cls):
        value, default = f.name, f"_default_{f.name}"
        known[default] = f.default
        if f.default_factory is not MISSING:
            known[default], known[f"_make_{f.name}"] = _MADE_ANEW, f.default_factory
            value = f"_make_{f.name}() if {f.name} is _anew else {f.name}" if f.init else f"_make_{f.name}()"
        elif not f.init:
            value = default
        if f.init:
            (named if f.kw_only else positional).append(f.name if known[default] is MISSING else f"{f.name}={default}")
        if f.init or known[default] is not MISSING:
            body.append(f"_assign(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*positional, *(["*", *named] if named else [])])
    exec(f"def __init__({parameters}):\n    " + "\n    ".join(body or ["pass"]), known)
    made = known["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {**{f.name: f.type for f in dataclasses.fields(cls) if f.init}, "return": None}
    return made


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
