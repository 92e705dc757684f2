from tilelang.errors import ToolchainError
from tilelang.runtime.finding import Finding, look_for


def refused(hint: str) -> str:
    raise ToolchainError("no compiler found\nat all", hint=hint)


def test_what_is_there_is_named() -> None:
    assert "found    compiler: cc 1.0" == str(look_for("compiler", lambda: "cc 1.0"))
    assert Finding("compiler", "cc", compiles=True) == look_for("compiler", lambda: "cc", compiles=True)


def test_what_is_missing_says_how_to_get_it() -> None:
    found = look_for("compiler", lambda: refused("install cc"), compiles=True)
    assert "missing  compiler: no compiler found\n           install cc" == str(found)
    assert found.compiles
    assert "missing  compiler: no compiler found" == str(look_for("compiler", lambda: refused("")))
