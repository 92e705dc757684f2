from tilelang.codegen.source import Source
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Seq
from tilelang.passes.base import Pass
from tilelang.passes.runner import run_passes
from tilelang.targets.backend import Backend


def test_a_backend_is_a_record_of_passes_and_a_printer() -> None:
    keep = Pass("keep", lambda func, context: func, Level.TILE, Level.TILE)
    backend = Backend("paper", (keep,), lambda func: Source("paper", func.name, func.name))
    func = run_passes(PrimFunc("f", (), Seq(())), backend.passes)
    assert "f" == backend.emit(func).text
