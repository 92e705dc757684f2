"""Identifiers: the user's names, made legal and unique."""

import pytest

from tilelang.codegen.names import Names, identifier
from tilelang.dtypes import FLOAT32
from tilelang.ir.expr import Var


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("A_shared", "A_shared"),
        ("for", "for_"),
        ("main", "main_"),
        ("int32_t", "int32_t_"),
        ("α", "u3b1"),
        ("x.y", "x_y"),
        ("3d", "v_3d"),
        ("_hidden", "v_hidden"),
        ("a__b", "a_b"),
        ("tl_max", "v_tl_max"),
        ("omp_get_num_threads", "v_omp_get_num_threads"),
        ("INT32_MAX", "INT32_MAX_"),
        ("M_PI", "M_PI_"),
        ("BLOCK_M", "BLOCK_M"),
        ("", "v"),
    ],
)
def test_names_become_identifiers_that_cpp_accepts(name, expected):
    assert expected == identifier(name)


def test_names_that_clash_get_numbers():
    names = Names()
    assert ["x", "x_1", "x_2"] == [names.declare(Var("x", FLOAT32)) for _ in range(3)]


def test_a_name_is_free_again_when_its_scope_has_ended():
    names = Names()
    with names.scope():
        names.declare(Var("i", FLOAT32))
    with names.scope():
        assert "i" == names.declare(Var("i", FLOAT32))


def test_an_inner_name_never_hides_an_outer_one():
    names = Names()
    names.declare(Var("i", FLOAT32))
    with names.scope():
        assert "i_1" == names.declare(Var("i", FLOAT32))


def test_a_name_for_everywhere_outlives_its_scope():
    names = Names()
    with names.scope():
        names.fresh_everywhere("f")
    assert "f_1" == names.fresh("f")


def test_a_node_can_go_by_an_existing_identifier():
    names, x = Names(), Var("x", FLOAT32)
    names.alias(x, "y[0]")
    assert x in names
    assert "y[0]" == names[x]


def test_names_that_were_asked_for_are_known():
    names = Names()
    x, y = Var("x", FLOAT32), Var("y", FLOAT32)
    names.declare(x)
    names.declare(y)
    assert "y" == names[y]
    assert {y} == names.used
