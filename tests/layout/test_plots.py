from pathlib import Path

import pytest

import tilelang.language as T
from tilelang.tools import plot_fragment_tv, plot_layout

SWIZZLED = T.Layout((2, 4), lambda i, j: (i, j ^ i))
SPREAD = T.Fragment((2, 4), lambda i, j: (i * 2 + j // 2, j % 2))


def texts(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    return [line.split(">")[1].split("<")[0] for line in lines if "text-anchor" in line]


def test_a_cell_per_coordinate(tmp_path: Path) -> None:
    plot_layout(SWIZZLED, tmp_path, name="one", formats="svg")
    assert ["0,0", "0,1", "0,2", "0,3", "1,1", "1,0", "1,3", "1,2"] == texts(tmp_path / "one.svg")
    text = (tmp_path / "one.svg").read_text()
    assert 8 == text.count("<rect ")
    assert 'width="276" height="168"' in text


def test_a_cell_per_place(tmp_path: Path) -> None:
    plot_layout(T.Layout((3,), lambda i: 2 * i), tmp_path, formats=["svg"], view="output")
    assert ["0", "1", "2"] == texts(tmp_path / "layout.svg")
    assert 2 == (tmp_path / "layout.svg").read_text().count('fill="white"')


def test_fragments_show_threads_and_values(tmp_path: Path) -> None:
    plot_layout(SPREAD, tmp_path, name="f", formats="svg", grid_shape=(4, 2))
    assert ["T0", "L0", "T0", "L1", "T1", "L0", "T1", "L1", "T2"] == texts(tmp_path / "f.svg")[:9]
    plot_fragment_tv(SPREAD, tmp_path, formats="svg")
    assert ["0,0", "0,1", "0,2", "0,3", "1,0", "1,1", "1,2", "1,3"] == texts(tmp_path / "fragment_tv.svg")


def test_copies_in_neighboring_threads_are_a_range(tmp_path: Path) -> None:
    plot_layout(T.Fragment((2,), forward_thread_fn=lambda i, c: i * 4 + c, replicate=4), tmp_path, formats="svg")
    assert ["T0-3", "L0", "T4-7", "L0"] == texts(tmp_path / "layout.svg")


def test_other_formats_need_a_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    plot_layout(SWIZZLED, tmp_path, formats="all", verbose=True)
    said = capsys.readouterr().out.splitlines()
    assert "plot_layout: matplotlib is not installed, so layout.svg is written instead of pdf, png" == said[0]
    assert [str(tmp_path / "layout.svg")] == said[1:]


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"layout": 3}, TypeError, "plot_layout: 3 is no layout"),
        ({"layout": SWIZZLED, "view": "side"}, ValueError, "plot_layout: view is 'side'"),
        (
            {"layout": SWIZZLED, "grid_shape": (3, 3)},
            ValueError,
            "plot_layout: grid_shape (3, 3) has not the 8 cells of the layout",
        ),
        ({"layout": SWIZZLED, "formats": "gif"}, ValueError, "plot_layout: there is no format ['gif']"),
    ],
)
def test_what_cannot_be_drawn(arguments: dict[str, object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        plot_layout(**arguments)  # type: ignore[arg-type]
    assert message == caught.value.message  # type: ignore[attr-defined]
