"""Dumps of the program after each pass, and plots of layouts, as files.

Does not change the function that is being compiled.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.errors import OptionError
from tilelang.ir.compare import digest
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.jit.program import snapshots
from tilelang.layout import thread_values
from tilelang.layout.digits import NotDigitMap
from tilelang.layout.fragment import Fragment
from tilelang.options import CompileOptions
from tilelang.targets.target import Target

if TYPE_CHECKING:
    from tilelang.passes.runner import Snapshot

_PICTURES = "./tmp"
_FOLDERS: dict[Path, list[str]] = {}
"""By the folder of a kernel's name: the kernels of this name so far; the second one has a folder of its own."""


def write_dumps(func: PrimFunc, target: Target, options: CompileOptions) -> None:
    """Writes the files of `tl.enable_dump_ir` and `tl.layout_visualization_enable`.

    The program goes to `FOLDER/KERNEL/000_input.py`, `001_NAME_OF_A_PASS.py` and so on, also if a pass raises an error.
    The layouts of fragments, and of shared tiles that are not row-major, are printed, and drawn into
    `./tmp/KERNEL/BUFFER_layout.svg`; on GPUs only.

    Raises:
        OptionError: A file cannot be written.
        TileLangError: Any error of the compiler.
    """
    folder, formats = options.dump_folder, options.layout_formats
    if folder is None and not formats:
        return
    identity = f"{digest(func)} {target}"
    shots: list[Snapshot] = []
    try:
        snapshots(func, target, options, shots)
    finally:
        try:
            if folder is not None:
                _write_programs(_folder_of(Path(folder), func.name, identity), shots)
            if formats:
                _draw_layouts(_folder_of(Path(_PICTURES), func.name, identity), shots, formats)
        except OSError as error:
            raise OptionError(f"pass_configs: cannot write {error.filename}: {error.strerror}") from None


def _folder_of(root: Path, name: str, identity: str) -> Path:
    place = root.absolute() / name
    known = _FOLDERS.setdefault(place, [])
    if identity not in known:
        known.append(identity)
    number = known.index(identity)
    return root / (f"{name}_{number + 1}" if number else name)


def _write_programs(folder: Path, shots: list[Snapshot]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("[0-9][0-9][0-9]_*.py"):
        old.unlink()
    for number, shot in enumerate(shots):
        (folder / f"{number:03}_{shot.name}.py").write_text(shot.text, encoding="utf-8")


def _draw_layouts(folder: Path, shots: list[Snapshot], formats: tuple[str, ...]) -> None:
    from tilelang.layout.plots import plot_layout  # noqa: PLC0415  few kernels are drawn

    pictures = [one for one in formats if one != "txt"]
    shot = next((shot for shot in shots if shot.name == "infer_layouts"), None)
    for launch in [] if shot is None else [s for s in walk(shot.func.body) if isinstance(s, Launch)]:
        spread = [(buffer, layout, _by_functions(layout)) for buffer, layout in launch.plan.fragments]
        for buffer, layout, drawn in (*spread, *((tile, laid, laid) for tile, laid in launch.plan.shared_layouts)):
            if "txt" in formats:
                print(f"{buffer.name}: {layout!r}")  # noqa: T201  the user asked for it
            if pictures and drawn is not None and drawn.is_small:
                plot_layout(drawn, folder, f"{buffer.name}_layout", formats=pictures)


def _by_functions(spread: thread_values.Fragment) -> Fragment | None:
    """The fragment as a user would write it; None if threads hold elements out of bounds of the tile."""

    def place(*at: Any) -> tuple[Any, Any]:
        thread, value = spread.owner(*at[: len(spread.shape)])
        return (thread + spread.copies[at[-1]] if spread.replication > 1 else thread), value

    try:
        return Fragment(spread.shape, place, replicate=spread.replication)
    except NotDigitMap:
        return None
