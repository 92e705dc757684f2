"""Lets mypy read what users read: the code of README.md and of the tutorial, and the examples.

Two rules are off, since they speak of annotations that the language reads itself: `A: T.Tensor((M, N), "float16")` is a
call where Python's typing rules want a type, and in eager style a statement annotates a parameter once more.
"""

import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "docs/tutorial.md")
# of the comparison the part that is TileLang
EXAMPLES = ("examples/*.py", "examples/0*/*.py", "examples/comparison/gemm_tilelang.py")


def code_of(page: Path) -> str:
    """The Python blocks of a page, one after another."""
    blocks = re.findall(r"^ *```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return "\n".join(textwrap.dedent(block) for block in blocks)


def main() -> int:
    """Runs mypy; gives its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        files = [str(path) for pattern in EXAMPLES for path in sorted(ROOT.glob(pattern))]
        for page in PAGES:
            copy = Path(folder, f"{Path(page).stem.lower()}_page.py")
            copy.write_text(code_of(ROOT / page), encoding="utf-8")
            files.append(str(copy))
        options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent", "--check-untyped-defs"]
        off = ["--disable-error-code=valid-type", "--disable-error-code=no-redef"]
        command = [sys.executable, "-m", "mypy", *options, *off, *files]
        return subprocess.run(command, cwd=ROOT, env={"MYPYPATH": "src"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
