"""Tests for tilelang.level1.api."""

import pytest
from array_functions import traced

from tilelang.errors import StagingTypeError
from tilelang.level1.api import api


@api
def scale(x: object, factor: float) -> object:
    return x


def test_functions_and_methods_are_named_as_users_write_them() -> None:
    with pytest.raises(StagingTypeError) as error:
        scale(1)  # type: ignore[call-arg]
    assert str(error.value) == "tnp.scale: missing a required argument: 'factor'\nhint: the form is tnp.scale(x, factor)"
    with pytest.raises(StagingTypeError) as error:
        traced(3).astype()
    assert str(error.value) == "array.astype: missing a required argument: 'dtype'\nhint: the form is array.astype(dtype)"
