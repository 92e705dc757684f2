"""Dumps of programs and layouts as files."""

from pathlib import Path

import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import OptionError, ProgramError
from tilelang.ir.printer import to_text

GPU = {"target": {"kind": "cuda", "arch": "sm_80"}, "execution_backend": "simulator"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kernel(size: int = 32):
    @T.prim_func
    def summed(A: T.Tensor((16, size), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            rows = T.alloc_fragment((16, size), "float32")
            sums = T.alloc_fragment((16,), "float32")
            T.copy(A, rows)
            T.reduce_sum(rows, sums, dim=1)
            T.copy(sums, B)

    return summed


def test_nothing_is_written_by_default(folder, capsys):
    tilelang.compile(kernel(), pass_configs={"tl.enable_dump_ir": False, "tl.dump_ir_path": "elsewhere"}, **GPU)
    assert [] == list(folder.iterdir())
    assert "" == capsys.readouterr().out


def test_the_program_is_written_before_and_after_each_pass(folder):
    compiled = tilelang.compile(kernel(), pass_configs={"tl.enable_dump_ir": True}, **GPU)
    names = sorted(path.name for path in (folder / "dump_ir" / "summed").iterdir())
    assert ["000_input.py", "001_resolve_warp_size.py"] == names[:2]
    assert to_text(compiled.prim_func) == (folder / "dump_ir" / "summed" / names[0]).read_text()
    for name in ("infer_layouts", "simplify_body"):
        (path,) = (folder / "dump_ir" / "summed").glob(f"*_{name}.py")
        assert compiled.show_ir(name) == path.read_text()


def test_kernels_of_one_name_have_separate_folders(folder):
    for size in (32, 64, 32):
        tilelang.lower(
            kernel(size), GPU["target"], pass_configs={"tl.enable_dump_ir": True, "tl.dump_ir_path": "here"}
        )
        (folder / "here" / "summed" / "999_old.py").touch()
    assert ["summed", "summed_2"] == sorted(path.name for path in (folder / "here").iterdir())
    assert "(16, 64)" in (folder / "here" / "summed_2" / "000_input.py").read_text()


def test_a_program_that_a_pass_refuses_is_written_up_to_that_pass(folder):
    @T.prim_func
    def refused(A: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            for i in T.serial(16):
                tile[i] = A[i]

    with pytest.raises(ProgramError):
        tilelang.compile(refused, pass_configs={"tl.enable_dump_ir": True}, **GPU)
    names = sorted(path.name for path in (folder / "dump_ir" / "refused").iterdir())
    assert ["000_input.py", "001_resolve_warp_size.py", "002_drop_optional_calls.py", "003_grow_fragments.py"] == names


def test_layouts_are_printed_and_drawn(folder, capsys):
    tilelang.compile(kernel(), pass_configs={"tl.layout_visualization_enable": True}, **GPU)
    printed = capsys.readouterr().out.splitlines()
    assert ["rows: Fragment((16, 32)", "sums: Fragment((16,)"] == [line.partition(", thread=")[0] for line in printed]
    assert ["rows_layout.svg", "sums_layout.svg"] == sorted(path.name for path in (folder / "tmp" / "summed").iterdir())
    picture = (folder / "tmp" / "summed" / "rows_layout.svg").read_text()
    assert 16 * 32 == picture.count("<rect ")


def test_formats_are_chosen(folder, capsys):
    configs = {"tl.layout_visualization_enable": True, "tl.layout_visualization_formats": "txt"}
    tilelang.compile(kernel(), pass_configs=configs, **GPU)
    assert 2 == len(capsys.readouterr().out.splitlines())
    assert [] == list(folder.iterdir())


def test_a_folder_that_cannot_be_made_is_an_error_of_the_option(folder):
    (folder / "file").touch()
    with pytest.raises(OptionError, match=r"pass_configs: cannot write file/summed: Not a directory"):
        tilelang.compile(kernel(), pass_configs={"tl.enable_dump_ir": True, "tl.dump_ir_path": "file"}, **GPU)
