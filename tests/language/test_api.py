from collections.abc import Sequence

import pytest

import tilelang.language as T
from tilelang.errors import StagingError
from tilelang.language.api import api


@api
def scale(src: int, factor: int = 2) -> int:
    return src * factor


@api
def total(*parts: object, many: Sequence[object] = ()) -> object:
    return sum([*parts, *many])  # type: ignore[call-overload]


def test_a_good_call_passes_through() -> None:
    assert 6 == scale(3)
    assert "scale" == scale.__name__


def test_an_unknown_keyword_is_told_with_the_nearest_known_one() -> None:
    with pytest.raises(StagingError) as caught:
        scale(3, facter=4)  # type: ignore[call-arg]
    assert "T.scale: got an unexpected keyword argument 'facter'" == caught.value.message
    assert "did you mean 'factor'? the form is T.scale(src, factor=2)" == caught.value.hint


def test_a_missing_argument_is_told_with_the_form() -> None:
    with pytest.raises(StagingError) as caught:
        scale()  # type: ignore[call-arg]
    assert "T.scale: missing a required argument: 'src'" == caught.value.message


def test_operands_of_a_wrong_kind_are_shown_with_the_form() -> None:
    with pytest.raises(StagingError) as caught:
        scale([], factor={})  # type: ignore[arg-type]
    assert "T.scale: src is [], not an int" == caught.value.message
    assert "the form is T.scale(src, factor=2)" == caught.value.hint


def test_operands_whose_type_has_no_test_are_shown_together() -> None:
    with pytest.raises(StagingError) as caught:
        total(3, [], many=[{}])
    assert "T.total: does not take (3, [], many=[{}])" == caught.value.message
    assert "the form is T.total(*parts, many=())" == caught.value.hint


def test_an_argument_that_the_function_does_not_look_at_is_still_compared_with_its_type() -> None:
    with pytest.raises(StagingError) as caught:
        scale("x")  # type: ignore[arg-type]
    assert "T.scale: src is 'x', not an int" == caught.value.message


def test_classes_are_named_as_the_user_names_them() -> None:
    with pytest.raises(StagingError) as caught:
        T.Tensor()  # type: ignore[call-arg]
    assert "T.Tensor: missing a required argument: 'shape'" == caught.value.message


def test_a_tile_operator_outside_of_a_kernel_function_says_so() -> None:
    with pytest.raises(StagingError) as caught:
        T.alloc_shared((4,))
    assert "T.alloc_shared: may only be used inside a kernel" == caught.value.message
