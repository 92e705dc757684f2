"""What names a piece of Python binds."""

import ast

from tilelang.language.names import assigned_names, binding_counts, flat_names, parts_of, reborn_names


def body(text):
    return ast.parse(text).body


def test_bindings_are_counted_with_parameters():
    function = body("def f(a, *b, c=1, **d):\n    a = 1\n    for i in x:\n        i, e = 1, 2\n    e += 1\n")[0]
    assert {"a": 2, "b": 1, "c": 1, "d": 1, "i": 2, "e": 2} == dict(binding_counts(function))


def test_nested_scopes_bind_only_their_own_name():
    text = "def g():\n    inner = 1\nh = lambda z: z\nq = [w for w in r]\n"
    assert ("g", "h", "q") == assigned_names(body(text))


def test_loop_and_with_targets_can_be_left_out():
    text = "for i, j in x:\n    y = 1\nwith k as bx:\n    z = 2\nj = 3\n"
    assert ("i", "j", "y", "bx", "z") == assigned_names(body(text))
    assert ("j", "y", "z") == assigned_names(body(text), loop_targets=False)


def test_names_assigned_before_they_are_read_are_reborn():
    text = "a = 1\nb = b + 1\nc = a\nif a:\n    d = 1\nd = 2\ne, f = 1, 2\n"
    assert {"a", "c"} == reborn_names(body(text))


def test_the_parts_of_a_tuple_are_told_unless_one_has_a_star():
    def value(text):
        return ast.parse(text, mode="eval").body

    assert ["x", "(y, z)"] == [ast.unparse(part) for part in parts_of(value("x, (y, z)"))]
    assert [None, None, None] == [parts_of(value(text)) for text in ("x", "(x, *y)", "f(x, y)")]
    assert [("x",), ("x", "y"), None] == [flat_names(value(text)) for text in ("x", "[x, y]", "x, (y, z)")]
