"""How programs are compiled for NVIDIA GPUs: lowerings for tile operators, passes, printer."""

from __future__ import annotations

from types import MappingProxyType

from tilelang.backends.backend import Backend
from tilelang.codegen.cuda import emit
from tilelang.lowering.lowering import Lowerings
from tilelang.passes.tile import check_program, inline_bindings

LOWERINGS: Lowerings = MappingProxyType({})

BACKEND = Backend(
    kind="cuda",
    passes=(
        check_program.PASS,
        inline_bindings.PASS,
    ),
    emit=emit,
)
