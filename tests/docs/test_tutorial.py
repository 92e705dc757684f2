"""The tutorial's blocks of code run, in order, as one program; so do those of the README."""

import re
import runpy
from pathlib import Path

import pytest
from fake_cuda import needs_nvrtc
from hip_kernels import needs_clang

ROOT = Path(__file__).resolve().parents[2]


def program_of(text: str) -> str:
    """The Python blocks of a Markdown text on the lines where they stand, everything else blank."""
    lines, indent = [], None
    for line in text.splitlines():
        fence = re.match(r"( *)```(\w*)", line)
        if fence:
            indent = len(fence[1]) if indent is None and fence[2] == "python" else None
            lines.append("")
        else:
            lines.append(line[indent:] if indent is not None else "")
    return "\n".join(lines) + "\n"


@pytest.mark.usefixtures("short_measurements")
@pytest.mark.parametrize(
    "name",
    [
        "docs/tutorial.md",
        "docs/from_mathematics_to_a_kernel.md",
        "docs/tuning.md",
        "docs/from_triton.md",
        "docs/from_cuda.md",
        "README.md",
        pytest.param("docs/gpu.md", marks=[needs_nvrtc, needs_clang]),
    ],
)
def test_every_snippet_runs(name: str, tmp_path: Path) -> None:
    program = program_of((ROOT / name).read_text())
    assert "T.Kernel" in program
    script = tmp_path / f"{Path(name).stem}.py"
    script.write_text(program)
    runpy.run_path(str(script), run_name="__main__")


def test_blocks_keep_their_lines() -> None:
    text = "title\n```python\na = 1\n```\n```\nnot code\n```\n- item\n  ```python\n  b = 2\n  ```\n"
    assert ["", "", "a = 1", "", "", "", "", "", "", "b = 2", ""] == program_of(text).splitlines()
