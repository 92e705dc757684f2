"""The simulator runs every program of the seeds in several schedules, which must give the same bits.

Those that it runs as GPUs of AMD are compiled as well, without spills, for the GPU and for another of its generation.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from gpu import run_every_schedule
from hip_kernels import has_clang

import tilelang
from tilelang.ir.func import PrimFunc

ALIKE = {"gfx942": "gfx90a", "gfx950": "gfx950", "gfx1100": "gfx1151", "gfx1200": "gfx1201"}


@pytest.fixture(autouse=True)
def _every_schedule(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    run_every_schedule(monkeypatch)
    make, made = import_module("tilelang.jit.kernel").make_runner, list[tuple[PrimFunc, str]]()

    def recorded(func: PrimFunc, signature: Any, target: Any, options: Any, backend: str) -> Any:
        if target.arch in ALIKE:
            made.append((func, target.arch))
        return make(func, signature, target, options, backend)

    with monkeypatch.context() as patch:
        patch.setattr("tilelang.jit.kernel.make_runner", recorded)
        yield
    for func, arch in made if has_clang() else ():
        for each in {arch, ALIKE[arch]}:
            used = tilelang.compile(func, target={"kind": "hip", "arch": each}).resources
            assert (0, 0) == (used.spill_bytes, used.local_bytes), f"{func.name} on {each}"
