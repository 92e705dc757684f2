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
