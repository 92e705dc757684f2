"""Abstract base classes whose instance checks are those of other classes: passes make tens of thousands of them."""

from __future__ import annotations

import abc


class _AbstractType(abc.ABCMeta):
    """`abc.ABCMeta` without virtual subclasses, whose registry takes most of the time of a check."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


class Abstract(metaclass=_AbstractType):
    """A base class that cannot be made while methods of it are abstract."""
