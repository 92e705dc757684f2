"""The compile options of a function: those of the caller, and those annotated in the function.

Options of the caller take precedence; compile flags of both are used, the function's first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilelang.ir.func import COMPILE_FLAGS, PASS_CONFIGS, PrimFunc
from tilelang.options import CompileOptions


def options_of(
    func: PrimFunc,
    pass_configs: Mapping[str, object] | None = None,
    compile_flags: str | Sequence[str] | None = None,
    *,
    verbose: bool | None = None,
) -> CompileOptions:
    """The compile options of a function.

    Raises:
        OptionError: An option is unknown or means nothing.
    """
    own: dict[str, Any] = dict(func.attributes)
    if not own.keys() & {PASS_CONFIGS, COMPILE_FLAGS}:
        return CompileOptions.from_user(pass_configs, compile_flags, verbose=verbose)
    CompileOptions.from_user(pass_configs, compile_flags)  # a mistake of the caller is reported as such
    flags = [compile_flags] if isinstance(compile_flags, str) else list(compile_flags or ())
    configs = {**own.get(PASS_CONFIGS, {}), **{str(getattr(k, "value", k)): v for k, v in (pass_configs or {}).items()}}
    return CompileOptions.from_user(configs, [*own.get(COMPILE_FLAGS, ()), *flags], verbose=verbose)
