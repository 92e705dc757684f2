"""`plot_layout` and `plot_fragment_tv`: a layout as a grid of labelled cells, in files.

Takes layouts, writes SVG by itself, and PDF and PNG where matplotlib is installed. Invariant: every place of the view
is one cell, in row-major order, whose color says the thread of a fragment, or the first output of a layout.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from tilelang.api import public
from tilelang.errors import ProgramTypeError, ProgramValueError
from tilelang.layout.fragment import Fragment
from tilelang.layout.layout import Layout
from tilelang.records import record

FORMATS = ("pdf", "png", "svg")
_CELL = 54  # pixels
_MARGIN = 30
_HUES = 12  # colors before they repeat


@record
class Picture:
    """The content of a plot.

    Attributes:
        labels: The text of each cell, by row; "" where nothing lies.
        colors: A number per cell, -1 where nothing lies.
        title: The text above.
    """

    labels: list[list[str]]
    colors: list[list[int]]
    title: str


@public
def plot_layout(
    layout: Layout,
    save_directory: str | os.PathLike[str] = "./tmp",
    name: str = "layout",
    colormap: str | None = None,
    verbose: bool = False,
    formats: str | Sequence[str] = "pdf",
    view: str = "input",
    grid_shape: tuple[int, int] | None = None,
) -> None:
    """Draws where the coordinates of a tile lie, or which thread holds them.

    Args:
        layout: A `T.Layout` or `T.Fragment` of constant shape.
        save_directory: The folder for files; created if it does not exist.
        name: Of the files, without ending.
        colormap: The name of a colormap of matplotlib; SVG has colors of its own.
        verbose: Print where the files are.
        formats: "pdf", "png", "svg", "all", or several, as a list or with commas. Without matplotlib only SVG is
            written, and a line is printed for the others.
        view: "input" draws a cell per coordinate that shows where it lies; "output" one per place that shows what lies
            there.
        grid_shape: Rows and columns of cells; the last dimension along the columns without it.

    Raises:
        ProgramTypeError: It is no layout.
        ProgramValueError: There is no such view or format, or the grid has another number of cells.
    """
    what = "plot_layout"
    if not isinstance(layout, Layout):
        raise ProgramTypeError(f"{what}: {layout!r:.40} is no layout", hint="write T.Layout(...) or T.Fragment(...)")
    if view not in ("input", "output"):
        raise ProgramValueError(f"{what}: view is {view!r:.40}", hint="write 'input' or 'output'")
    if not layout.is_small or not layout.shape:
        raise ProgramValueError(f"{what}: a layout of shape {layout.shape} has no grid of cells")
    cells = _by_coordinate(layout) if view == "input" else _by_place(layout)
    _save(what, _arranged(what, cells, grid_shape, repr(layout)), save_directory, name, colormap, verbose, formats)


@public
def plot_fragment_tv(
    layout: Fragment,
    save_directory: str | os.PathLike[str] = "./tmp",
    name: str = "fragment_tv",
    colormap: str | None = None,
    verbose: bool = False,
    formats: str | Sequence[str] = "pdf",
) -> None:
    """Draws what each thread holds: a row per thread, a column per value. Arguments and errors of `plot_layout`."""
    what = "plot_fragment_tv"
    if not isinstance(layout, Fragment):
        raise ProgramTypeError(f"{what}: {layout!r:.40} is no fragment", hint="write T.Fragment(...)")
    threads, values = layout.get_thread_size(), math.prod(layout.output_shape)
    labels = np.full((threads, values), "", object)
    for at in np.ndindex(*layout.shape):
        value = int(np.ravel_multi_index(layout(*at), layout.output_shape))
        for thread in layout.thread_table[at]:
            labels[thread, value] = _joined(labels[thread, value], _text(at))
    colors = np.where(labels == "", -1, np.arange(threads)[:, None])
    picture = Picture(labels.tolist(), colors.tolist(), f"{layout!r}: rows are threads, columns values")
    _save(what, picture, save_directory, name, colormap, verbose, formats)


def _by_coordinate(layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """The label and color of every coordinate. Shapes: the layout's."""
    labels, colors = np.empty(layout.shape, object), np.zeros(layout.shape, np.int64)
    for at in np.ndindex(*layout.shape):
        value = layout.table[at]
        if isinstance(layout, Fragment):
            threads = layout.thread_table[at]
            labels[at] = f"T{_threads(threads)}\nL{','.join(map(str, value))}"
            colors[at] = threads[0]
        else:
            labels[at], colors[at] = _text(value), value[0]
    return labels, colors


def _by_place(layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """The label and color of every place, of fragments with the thread in front. Shapes: the output's."""
    table, box = layout.table, layout.output_shape
    if isinstance(layout, Fragment):
        table = np.concatenate([layout.thread_table[..., :1], table], axis=-1)
        box = (layout.get_thread_size(), *box)
    labels, colors = np.full(box, "", object), np.full(box, -1, np.int64)
    for at in np.ndindex(*layout.shape):
        place = tuple(table[at])
        labels[place], colors[place] = _joined(labels[place], _text(at)), at[0] if len(box) > 1 else 0
    return labels, colors


def _threads(threads: Sequence[Any]) -> str:
    """The threads that hold an element; many in a row, as those of a replicated one, by the first and the last."""
    numbers = [int(thread) for thread in threads]
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return f"{numbers[0]}-{numbers[-1]}"
    return ",".join(map(str, numbers))


def _text(coordinate: Sequence[Any]) -> str:
    return ",".join(str(int(c)) for c in coordinate)


def _joined(before: str, text: str) -> str:
    return f"{before}\n{text}" if before else text


def _arranged(
    what: str, cells: tuple[np.ndarray, np.ndarray], grid_shape: tuple[int, int] | None, title: str
) -> Picture:
    labels, colors = cells
    shape = grid_shape if grid_shape is not None else (-1, labels.shape[-1])
    good = isinstance(shape, tuple | list) and len(shape) == 2 and all(isinstance(n, int) for n in shape)
    if not good or grid_shape is not None and (min(shape) < 1 or math.prod(shape) != labels.size):
        raise ProgramValueError(f"{what}: grid_shape {grid_shape!r:.40} has not the {labels.size} cells of the layout")
    return Picture(labels.reshape(shape).tolist(), colors.reshape(shape).tolist(), title)


def _save(
    what: str,
    picture: Picture,
    folder: str | os.PathLike[str],
    name: str,
    colormap: str | None,
    verbose: bool,
    formats: str | Sequence[str],
) -> None:
    asked = [part.strip() for part in formats.split(",")] if isinstance(formats, str) else list(formats)
    wanted = list(FORMATS) if "all" in asked else asked
    unknown = [one for one in wanted if one not in FORMATS]
    if unknown or not wanted:
        raise ProgramValueError(f"{what}: there is no format {unknown}", hint="write 'pdf', 'png', 'svg' or 'all'")
    os.makedirs(folder, exist_ok=True)
    others = [one for one in wanted if one != "svg"]
    drawn = _by_matplotlib(picture, folder, name, colormap, others) if others else []
    if others and not drawn:
        print(f"{what}: matplotlib is not installed, so {name}.svg is written instead of {', '.join(others)}")  # noqa: T201  files were asked for that are not there
    if "svg" in wanted or others and not drawn:
        path = os.path.join(folder, f"{name}.svg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(svg(picture))
        drawn.append(path)
    if verbose:
        print("\n".join(drawn))  # noqa: T201  the user asked for it


def svg(picture: Picture) -> str:
    """The picture as the text of an SVG file."""
    rows, columns = len(picture.labels), len(picture.labels[0]) if picture.labels else 0
    width, height = columns * _CELL + 2 * _MARGIN, rows * _CELL + 2 * _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="monospace">',
        f'<text x="{_MARGIN}" y="{_MARGIN // 2}" font-size="12">{escape(picture.title)}</text>',
    ]
    for row, (labels, colors) in enumerate(zip(picture.labels, picture.colors, strict=True)):
        for column, (label, color) in enumerate(zip(labels, colors, strict=True)):
            x, y = _MARGIN + column * _CELL, _MARGIN + row * _CELL
            fill = "white" if color < 0 else f"hsl({color % _HUES * 360 // _HUES},70%,{85 - color // _HUES % 3 * 8}%)"
            lines.append(f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" fill="{fill}" stroke="gray"/>')
            texts = label.split("\n") if label else []
            for line, text in enumerate(texts):
                middle = y + _CELL // 2 + 4 + 12 * line - 6 * (len(texts) - 1)
                lines.append(
                    f'<text x="{x + _CELL // 2}" y="{middle}" font-size="10" text-anchor="middle">{escape(text)}</text>'
                )
    return "\n".join([*lines, "</svg>", ""])


def _by_matplotlib(
    picture: Picture, folder: str | os.PathLike[str], name: str, colormap: str | None, formats: Sequence[str]
) -> list[str]:
    """The files that matplotlib drew; none if it is not installed."""
    try:
        from matplotlib import colormaps, figure  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415  only pictures need it
    except ImportError:
        return []
    rows, columns = len(picture.labels), len(picture.labels[0])
    drawing = figure.Figure(figsize=(max(2.0, columns * 0.6), max(2.0, rows * 0.6)))
    axes = drawing.subplots()
    colors = colormaps[colormap or "tab20"]
    for row, (labels, numbers) in enumerate(zip(picture.labels, picture.colors, strict=True)):
        for column, (label, number) in enumerate(zip(labels, numbers, strict=True)):
            fill = "white" if number < 0 else colors(number % colors.N)
            axes.fill_between([column, column + 1], row, row + 1, facecolor=fill, edgecolor="gray")
            axes.text(column + 0.5, row + 0.5, label, ha="center", va="center", fontsize=6)
    axes.set(xlim=(0, columns), ylim=(rows, 0), title=picture.title)
    axes.set_axis_off()
    paths = [os.path.join(folder, f"{name}.{one}") for one in formats]
    for path in paths:
        drawing.savefig(path, bbox_inches="tight")
    return paths
