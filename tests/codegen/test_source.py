"""Generated source and what decides its compiled result."""

from tilelang.codegen.source import Source
from tilelang.errors import Loc


def test_comments_do_not_decide_the_compiled_result():
    one = Source("cpp", "// a.py:1: x = 1\nint x;\n    // a.py:2: y\n", "f")
    other = Source("cpp", "// b.py:7: x = 1\nint x;\n", "f")
    assert one.key_text == other.key_text


def test_code_decides_the_compiled_result():
    assert Source("cpp", "int x;\n", "f").key_text != Source("cpp", "int y;\n", "f").key_text


def test_a_line_belongs_to_the_nearest_place_before_it():
    first, second = Loc("user.py", 12, 4), Loc("user.py", 13, 4)
    source = Source("cpp", "one\ntwo\nthree\n", "f", {2: first, 5: second})
    assert [None, first, first, second] == [source.loc_of(number) for number in (1, 2, 4, 99)]
