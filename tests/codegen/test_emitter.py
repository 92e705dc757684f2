"""Text with indentation and the way back to the user's lines."""

from tilelang.codegen.emitter import Emitter
from tilelang.errors import NOWHERE, Loc


def test_blocks_indent_and_directives_stand_at_the_margin():
    out = Emitter()
    with out.block("for (;;)"):
        out.directive("#pragma omp simd")
        out.line("x();")
        out.line()
    assert "for (;;) {\n#pragma omp simd\n    x();\n\n}\n" == out.finish()[0]


def test_lines_count_from_one_after_the_preamble():
    out, here = Emitter(), Loc("a.py", 7)
    out.line("int x;")
    out.loc = here
    out.line("int y;")
    out.loc = NOWHERE
    out.line("int z;")
    text, lines = out.finish("#include <cstdint>\n\n")
    assert {4: here} == lines
    assert "int y;" == text.splitlines()[3]


def test_lines_of_another_emitter_are_indented_and_keep_their_places():
    outer, inner = Emitter(), Emitter()
    inner.loc = Loc("user.py", 3, 0)
    inner.directive("#pragma unroll")
    inner.line("x = 1;")
    with outer.block("if (y)"):
        outer.include(inner)
    text, lines = outer.finish()
    assert "if (y) {\n#pragma unroll\n    x = 1;\n}\n" == text
    assert {2: inner.loc, 3: inner.loc} == lines
