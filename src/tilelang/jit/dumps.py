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

_PLOT_FOLDER = "./tmp"
_FOLDERS: dict[Path, list[str]] = {}
"""The kernels that were dumped, by the folder of their name: the second one of a name gets a numbered folder."""


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
    after_passes: list[Snapshot] = []
    try:
        snapshots(func, target, options, after_passes)
    finally:
        try:
            if folder is not None:
                _write_programs(_folder_of(Path(folder), func.name, identity), after_passes)
            if formats:
                _draw_layouts(_folder_of(Path(_PLOT_FOLDER), func.name, identity), after_passes, formats)
        except OSError as error:
            raise OptionError(f"pass_configs: cannot write {error.filename}: {error.strerror}") from None


def _folder_of(root: Path, name: str, identity: str) -> Path:
    path = root.absolute() / name
    identities = _FOLDERS.setdefault(path, [])
    if identity not in identities:
        identities.append(identity)
    number = identities.index(identity)
    return root / (f"{name}_{number + 1}" if number else name)


def _write_programs(folder: Path, after_passes: list[Snapshot]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("[0-9][0-9][0-9]_*.py"):
        old.unlink()
    for number, snapshot in enumerate(after_passes):
        (folder / f"{number:03}_{snapshot.name}.py").write_text(snapshot.text, encoding="utf-8")


def _draw_layouts(folder: Path, after_passes: list[Snapshot], formats: tuple[str, ...]) -> None:
    from tilelang.layout.plots import plot_layout  # noqa: PLC0415  few kernels are drawn

    plot_formats = [name for name in formats if name != "txt"]
    inferred = next((snapshot for snapshot in after_passes if snapshot.name == "infer_layouts"), None)
    for launch in [] if inferred is None else [s for s in walk(inferred.func.body) if isinstance(s, Launch)]:
        fragments = [(buffer, layout, _as_language_fragment(layout)) for buffer, layout in launch.plan.fragments]
        tiles = [(tile, layout, layout) for tile, layout in launch.plan.shared_layouts]
        for buffer, layout, plotted in (*fragments, *tiles):
            if "txt" in formats:
                print(f"{buffer.name}: {layout!r}")  # noqa: T201  the user asked for it
            if plot_formats and plotted is not None and plotted.is_small:
                plot_layout(plotted, folder, f"{buffer.name}_layout", formats=plot_formats)


def _as_language_fragment(layout: thread_values.Fragment) -> Fragment | None:
    """The layout as a `T.Fragment`; None if threads hold elements out of bounds of the tile."""

    def owner(*indices: Any) -> tuple[Any, Any]:
        thread, value = layout.owner(*indices[: len(layout.shape)])
        return (thread + layout.copies[indices[-1]] if layout.replication > 1 else thread), value

    try:
        return Fragment(layout.shape, owner, replicate=layout.replication)
    except NotDigitMap:
        return None
