"""What the registry must know of the invented machines."""

from __future__ import annotations

from typing import Any

from invented.gemm_tiles import gemm_tiles
from invented.machines import DEFAULT_ARCH, MACHINES
from tilelang.errors import CompilerBug
from tilelang.options import CompileOptions
from tilelang.targets.family import REFERENCE, SIMULATOR, Family


def _build(source: Any, target: Any, options: CompileOptions, compiler: str) -> Any:
    raise CompilerBug("nobody builds the machine")


FAMILY = Family(
    kind="invented",
    published="invented",
    title="the invented machine",
    keys=("invented", "gpu"),
    aliases=("invented",),
    nicknames=(),
    prefix="",
    machines=MACHINES,
    default=DEFAULT_ARCH,
    present=lambda: None,
    runs_on=lambda code_for, machine: code_for == machine,
    execution_backends={**SIMULATOR, **REFERENCE},
    compiled_names=(),
    gemm_tiles=gemm_tiles,
    module="invented.backend",
    build=_build,
    identity=lambda options, compiler: "invented",
)
