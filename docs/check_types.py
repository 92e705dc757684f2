"""Lets mypy and pyright read what users read: the code of README.md and of the pages, and the examples.

Two rules are off, since they speak of annotations that the language reads itself: `A: T.Tensor((M, N), "float16")` is a
call where Python's typing rules want a type, and in eager style a statement annotates a parameter once more. The pages
tell users to turn them off, too.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", *(f"docs/{name}.md" for name in ("tutorial", "tuning", "from_triton", "from_cuda", "gpu")))
# of the comparison the part that is TileLang
EXAMPLES = ("examples/*.py", "examples/0*/*.py", "examples/comparison/gemm_tilelang.py")

# torch and IPython need not be there; what README and tutorial show of them is no part of this package
PYRIGHT = {"reportInvalidTypeForm": False, "reportRedeclaration": False, "reportMissingImports": False}


def code_of(page: Path) -> str:
    """The Python blocks of a page, one after another."""
    blocks = re.findall(r"^ *```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return "\n".join(textwrap.dedent(block) for block in blocks)


def run(*command: str) -> int:
    """The exit status of a Python module run as a program."""
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, env={"MYPYPATH": "src"}, check=False).returncode


def main() -> int:
    """Runs mypy and pyright; gives 0 if both accept everything."""
    with tempfile.TemporaryDirectory() as folder:
        files = [str(path) for pattern in EXAMPLES for path in sorted(ROOT.glob(pattern))]
        for page in PAGES:
            copy = Path(folder, f"{Path(page).stem.lower()}_page.py")
            copy.write_text(code_of(ROOT / page), encoding="utf-8")
            files.append(str(copy))
        settings = Path(folder, "pyrightconfig.json")
        relative = [os.path.relpath(file, folder) for file in files]  # it takes no other paths
        settings.write_text(json.dumps({"include": relative, "extraPaths": [str(ROOT / "src")], **PYRIGHT}))
        options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent", "--check-untyped-defs"]
        off = ["--disable-error-code=valid-type", "--disable-error-code=no-redef"]
        return run("mypy", *options, *off, *files) or run("pyright", "--project", str(settings), "--warnings")


if __name__ == "__main__":
    sys.exit(main())
