"""The names of level 3 that no target of this version gives a meaning.

Gives one function per name. Invariant: staging one is an error that says what to write instead; nothing is ever
silently dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NoReturn

from tilelang.errors import NoLowering
from tilelang.language.stage import current

_COPY = "write T.copy, or T.tma_copy with a barrier of T.alloc_barrier, which moves tiles by the copy engine"
_GEMM = "write T.gemm: the compiler chooses the matrix instruction"
_CALL = "write T.call_extern with a function of T.import_source"

_GROUPS: tuple[tuple[str, str], ...] = (
    (_COPY, "ptx_cp_async_bulk tma_load tma_store copy_cluster"),
    (_GEMM, "ptx_mma_sp tcgen05_gemm"),
    (_CALL, "call_intrin call_pure_extern"),
)

HINTS: Mapping[str, str] = MappingProxyType({name: hint for hint, names in _GROUPS for name in names.split()})


def refuse(name: str) -> NoReturn:
    """Says that a name of level 3 has no meaning on any target of this version.

    Raises:
        NoLowering: Always.
    """
    raise NoLowering(
        f"T.{name}: no target of this version has it",
        hint=HINTS[name],
    )


def _primitive(name: str) -> Callable[..., NoReturn]:
    def primitive(*args: object, **kwargs: object) -> NoReturn:
        current(f"T.{name}")
        refuse(name)

    primitive.__name__ = primitive.__qualname__ = name
    primitive.__doc__ = f"A name of level 3 that no target of this version has. Instead, {HINTS[name]}."
    return primitive


PRIMITIVES: Mapping[str, Callable[..., NoReturn]] = MappingProxyType({name: _primitive(name) for name in HINTS})
