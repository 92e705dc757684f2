"""Texts are found wherever Python has left one, and statements are cut out of what stands around them."""

import ctypes
import sys
import textwrap
import types

from tilelang.language.source_texts import candidate_texts, statements

DEFINITION = "@T.prim_func\ndef main(\n    A,\n):\n# a remark\n    pass\n\n"


def function(name):
    """A function of this name whose text nobody has."""
    code = (lambda: None).__code__.replace(co_name=name, co_filename="<nowhere>")
    return types.FunctionType(code, {}, name)


def test_statements_are_cut_where_others_begin():
    found = list(statements("import numpy\n" + DEFINITION + "print(main)\n", "main"))
    assert DEFINITION.partition("\n")[2] == found[0]
    assert DEFINITION in found


def test_statements_need_nothing_right_around_them():
    assert DEFINITION in list(statements("rest of a line)\n" + DEFINITION + "'''unfinished", "main"))


def test_the_last_of_a_name_comes_first_and_with_the_function_around_it():
    text = "def make():\n    def main(): return {}\n    return main\n"
    assert text.format(2) == next(statements(text.format(1) + text.format(2), "main"))
    assert [] == list(statements(text, "mai"))


def test_indented_texts_lose_their_indentation():
    assert DEFINITION in list(statements(textwrap.indent(DEFINITION, "    "), "main"))


def test_texts_come_from_what_the_calling_frames_hold(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text("def in_file(): pass")
    in_variable = "def in_{}(): pass".format("variable")
    in_bytes = b"def in_" + bytes(b"bytes(): pass")
    texts = list(candidate_texts(function("main")))
    assert in_variable in texts
    assert in_bytes.decode() in texts
    assert "def in_file(): pass" in texts
    assert "def in_literal(): pass" in texts


def test_texts_come_from_the_command_line_however_it_is_spelled(monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "-Ic", "def one(): pass", "-cdef two(): pass"])
    texts = list(candidate_texts(function("main")))
    assert "def one(): pass" in texts
    assert "def two(): pass" in texts


def test_texts_come_from_the_history_of_the_prompt(monkeypatch):
    class History:
        @staticmethod
        def get_current_history_length():
            return 3

        @staticmethod
        def get_history_item(index):
            return {1: "import x", 2: None, 3: "def f(): pass"}[index]

    monkeypatch.setitem(sys.modules, "readline", History)
    assert "import x\n\ndef f(): pass\n" in list(candidate_texts(function("f")))


def test_a_c_library_other_than_glibc_holds_nothing_that_can_be_read(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert "" == list(candidate_texts(function("main")))[-1]
