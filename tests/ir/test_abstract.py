"""Abstract base classes of nodes."""

import abc

import pytest

from tilelang.ir.abstract import Abstract


class Base(Abstract):
    @abc.abstractmethod
    def name(self): ...


class Named(Base):
    def name(self):
        return "named"


def test_a_class_with_abstract_methods_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        Base()
    assert Named().name() == "named"


def test_instances_are_those_of_subclasses():
    assert isinstance(Named(), Base)
    assert issubclass(Named, Base)
    assert not isinstance("named", Base)


def test_classes_registered_with_abc_are_none():
    Base.register(str)
    assert not isinstance("named", Base)
