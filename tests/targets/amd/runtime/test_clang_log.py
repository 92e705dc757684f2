from tilelang.codegen.source import Source
from tilelang.errors import CompilerBug, Loc, ToolchainError
from tilelang.options import CompileOptions
from tilelang.targets.amd.runtime.clang_log import rejection
from tilelang.targets.gpu.runtime.compile_log import Compilation

USER = Loc("user.py", 12, 4)
SOURCE = Source("hip", "one\ntwo\n", "k", {2: USER})


def made(log: str) -> Compilation:
    return Compilation(None, log, "clang -O3 kernel.hip")


def test_the_line_of_the_first_error_is_the_users_line() -> None:
    for name in ("kernel.hip", "/tmp/comgr-8ed964/input/CompileSource"):
        log = f"{name}:1:2: warning: no\n{name}:2:42: error: use of undeclared identifier 'm'\n    b = m;\n"
        error = rejection(SOURCE, made(log), CompileOptions())
        assert isinstance(error, CompilerBug)
        assert USER == error.loc
        assert error.message.endswith("generated line 2: use of undeclared identifier 'm'\n    two")


def test_the_users_own_text_is_the_users_fault() -> None:
    source = Source("hip", "one\n", "k", has_user_code=True)
    error = rejection(source, made("kernel.hip:1:1: fatal error: 'x.h' file not found"), CompileOptions())
    assert isinstance(error, ToolchainError)
    assert "check the names, types and includes of what T.import_source or T.call_extern was given" == error.hint


def test_a_log_without_a_line_is_quoted() -> None:
    error = rejection(SOURCE, made("ld.lld: error: undefined symbol: foo"), CompileOptions())
    assert isinstance(error, ToolchainError)
    assert "clang: failed while compiling kernel 'k'\nld.lld: error: undefined symbol: foo" == error.message
