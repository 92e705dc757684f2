import subprocess
import sys


def test_expressions_are_loaded_when_a_layout_is_asked_for_them() -> None:
    program = """
import sys
from tilelang.layout import Layout
layout = Layout((4, 8), lambda i, j: (j, i))
assert layout.table.shape == (4, 8, 2) and "tilelang.ir.expr" not in sys.modules
assert [str(place) for place in layout.get_forward_index()] == ["_j", "_i"]
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (0, "") == (result.returncode, result.stderr)
