"""The options of `@tilelang.jit`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilelang.environment import environment
from tilelang.ir.func import PrimFunc
from tilelang.jit.compile import compile
from tilelang.jit.kernel import JITKernel
from tilelang.records import record
from tilelang.runtime.parameters import OutIdx
from tilelang.targets.target import Target, TargetLike, entered_targets, parse_execution_backend, parse_target

# `os.environ` encodes the name and decodes the value in every read, which takes most of a microsecond; the mapping that
# it wraps does neither.
ENVIRON = os.environ
_TEXTS: Any = getattr(ENVIRON, "_data", ENVIRON)
variable = _TEXTS.get
TARGET, BACKEND = (
    name if _TEXTS is ENVIRON else ENVIRON.encodekey(name)
    for name in ("TILELANG_DEFAULT_TARGET", "TILELANG_EXECUTION_BACKEND")
)


def environment_key() -> tuple[Any, Any, Any]:
    """What `JitOptions.chosen` depends on beside the options, as a comparable value."""
    if os.environ is ENVIRON:
        return entered_targets(), variable(TARGET), variable(BACKEND)
    return entered_targets(), environment("TILELANG_DEFAULT_TARGET"), environment("TILELANG_EXECUTION_BACKEND")


@record
class JitOptions:
    """The options of `@tilelang.jit(...)`, shared by all kernels of the function."""

    out_idx: OutIdx = None
    target: TargetLike = None
    execution_backend: str | None = None
    pass_configs: Mapping[str, object] | None = None
    compile_flags: str | Sequence[str] | None = None
    verbose: bool | None = None
    debug_root_path: str | Path | None = None

    def chosen(self) -> tuple[Target, str]:
        """The target and execution backend, resolved in the current environment."""
        target = parse_target(self.target)
        return target, parse_execution_backend(self.execution_backend, target)

    def compile(self, func: PrimFunc) -> JITKernel:
        """A kernel with these options."""
        kernel = compile(
            func,
            self.out_idx,
            execution_backend=self.execution_backend,
            target=self.target,
            verbose=self.verbose,
            pass_configs=self.pass_configs,
            compile_flags=self.compile_flags,
        )
        if self.debug_root_path is not None:
            place = Path(self.debug_root_path) / func.name
            kernel.export_sources(f"{place}.{'cpp' if kernel.target.kind == 'cpu' else 'cu'}", f"{place}.py")
            Path(f"{place}.ir").write_text(str(func), encoding="utf-8")
        return kernel
