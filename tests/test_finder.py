import importlib
import importlib.machinery
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import UnknownAttribute, UnknownModule, UnknownName


def test_a_path_without_a_file_holds_the_objects_that_are_defined_elsewhere() -> None:
    from tilelang.language.copy_op import copy
    from tilelang.profiler.bench import do_bench

    assert T.copy is copy
    assert tilelang.profiler.do_bench is do_bench
    assert tilelang.language.copy_op.gemm is T.gemm


def test_a_path_with_a_file_holds_the_names_of_the_file_and_of_its_row() -> None:
    module = importlib.import_module("tilelang.language.kernel")
    assert T.Kernel is module.Kernel
    assert T.get_thread_binding is module.get_thread_binding


@pytest.mark.parametrize("name", ["tilelang.ir", "tilelang.ir.expr"])
def test_a_file_has_the_place_that_python_finds(name: str) -> None:
    module = importlib.import_module(name)
    expected = importlib.machinery.PathFinder.find_spec(name, sys.modules[name.rpartition(".")[0]].__path__)
    for fact in ("origin", "cached", "has_location", "submodule_search_locations"):
        assert getattr(module.__spec__, fact) == getattr(expected, fact)


def test_everything_can_be_imported_from_a_path_without_a_file() -> None:
    names: dict[str, object] = {}
    exec("from tilelang.cuda.language import *", names)
    assert T.gemm is names["gemm"]


def test_a_function_keeps_its_name_beside_a_module_of_that_name() -> None:
    from tilelang.engine.lower import lower

    assert tilelang.lower is lower
    assert tilelang.lower is tilelang.engine.lower
    assert tilelang.lower is importlib.import_module("tilelang.engine.lower").lower


@pytest.mark.parametrize(
    ("statement", "message", "hint"),
    [
        ("tilelang.compiel", "tilelang.compiel: there is no such name", "did you mean tilelang.compile?"),
        ("tilelang.engin", "tilelang.engin: there is no such name", "did you mean tilelang.engine?"),
        ("T.gemmm", "T.gemmm: there is no such name", "did you mean T.gemm?"),
        ("tilelang.layout.nothing_like_it", "tilelang.layout.nothing_like_it: there is no such name", ""),
        (
            "tilelang.transform.LowerAccessPtr",
            "tilelang.transform.LowerAccessPtr: internal to published TileLang, not part of this package",
            "kernel.show_ir() shows the program after each pass",
        ),
        (
            "tilelang._ffi_api.Layout_Inverse",
            "tilelang._ffi_api.Layout_Inverse: internal to published TileLang, not part of this package",
            "write the methods of tilelang.layout.Layout",
        ),
    ],
)
def test_an_absent_attribute_is_told(statement: str, message: str, hint: str) -> None:
    with pytest.raises(UnknownAttribute) as caught:
        eval(statement)
    assert (message, hint) == (caught.value.message, caught.value.hint)
    assert isinstance(caught.value, UnknownName)
    assert isinstance(caught.value, AttributeError)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("import tilelang.nothing", "tilelang.nothing: there is no such name"),
        ("from tilelang.engine.lower import lowr", "tilelang.engine.lower.lowr: there is no such name"),
        (
            "from tilelang.transform import LowerAccessPtr",
            "tilelang.transform.LowerAccessPtr: internal to published TileLang, not part of this package",
        ),
        (
            "import tilelang.jit.adapter.cython",
            "tilelang.jit.adapter.cython: internal to published TileLang, not part of this package",
        ),
    ],
)
def test_an_absent_import_is_told(statement: str, message: str) -> None:
    with pytest.raises(UnknownModule) as caught:
        exec(statement)
    assert message == caught.value.message
    assert isinstance(caught.value, UnknownName)
    assert isinstance(caught.value, ImportError)
    assert f"{__file__}:" not in message
    assert "<frozen" not in str(caught.value)


def test_programs_may_ask_whether_a_name_exists() -> None:
    assert not hasattr(tilelang.transform, "LowerAccessPtr")
    assert 3 == getattr(tilelang, "nothing", 3)
    assert not hasattr(tilelang.engine, "__wrapped__")


def test_a_private_name_can_be_imported_and_not_used() -> None:
    from tilelang.language.eager.ast import mutate

    with pytest.raises(UnknownAttribute, match="mutate: internal to published TileLang"):
        mutate(lambda: None)
    with pytest.raises(UnknownAttribute, match="mutate: internal to published TileLang"):
        isinstance(3, mutate)
    with pytest.raises(UnknownAttribute, match="mutate: internal to published TileLang"):
        _ = mutate.anything
    with pytest.raises(UnknownAttribute, match="mutate: internal to published TileLang"):
        type("Visitor", (mutate,), {})


def test_packages_without_a_main_module_are_not_run() -> None:
    result = subprocess.run([sys.executable, "-m", "tilelang.language"], capture_output=True, text=True, check=False)
    assert "No module named tilelang.language.__main__" in result.stderr


def test_a_module_named_tvm_serves_scalar_types_and_functions() -> None:
    import tvm.tirx as tirx
    from tvm import DataType

    assert T.Select is tirx.Select
    assert 16 == DataType("float16").bits
    assert ("int32", "float32", "uint8") == (tirx.const(3).dtype, tirx.const(1.5).dtype, tirx.const(3, "uint8").dtype)
    assert tirx.all(tirx.const(True), tirx.const(False)) is not None
    with pytest.raises(UnknownModule, match="tvm.relax: internal to published TileLang"):
        importlib.import_module("tvm.relax")
    with pytest.raises(UnknownAttribute, match="tvm.get_global_func: internal to published TileLang"):
        _ = importlib.import_module("tvm").get_global_func
    with pytest.raises(UnknownAttribute, match="For: internal to published TileLang"):
        isinstance(3, tirx.For)
    with pytest.raises(UnknownAttribute, match="StmtVisitor: internal to published TileLang"):
        type("Visitor", (importlib.import_module("tvm.tirx.stmt_functor").StmtVisitor,), {})


def test_what_programs_catch_of_tvm_is_every_error_of_this_package() -> None:
    import tvm

    for caught in (tvm.TVMError, tvm.error.InternalError, tvm.error.TVMError):
        with pytest.raises(caught):
            T.dtype("float17")


def test_tvm_is_imported_from_the_package_too() -> None:
    program = """
import tilelang
assert not hasattr(tilelang, "tvm")
from tilelang import tvm as imported
import tvm
assert imported is tvm
print(imported.tirx.const(3).dtype, tvm.__name__)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "int32 tvm\n" == result.stdout


def test_a_real_tvm_comes_first(tmp_path: Path) -> None:
    package = tmp_path / "tvm"
    package.mkdir()
    (package / "__init__.py").write_text("real = True\n")
    program = "import tilelang, tvm; print(tvm.real, hasattr(tvm, 'tirx'))\ntry: import tvm.tirx\nexcept ImportError as e: print(e)"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment
    )
    assert "True False\nNo module named 'tvm.tirx'\n" == result.stdout
