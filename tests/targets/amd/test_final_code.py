"""The code that compilers leave of printed programs: it keeps within limits, and waits before LDS is read.

Every program is compiled for every machine; for those of CDNA, each wave of a work-group is followed through the code.
"""

from functools import cache

import pytest
from amd_final_code import argument_memory, check_limits, check_waits
from amd_lds_state import Hazard
from amd_machine_code import decoder, kernel_code
from amd_programs import attention, gemm, row_sums, transpose
from amd_waves import follow
from hip_kernels import ARCHES, needs_clang

import tilelang
from tilelang.targets.amd.runtime.device_code import HipCode

pytestmark = needs_clang
CDNA = [arch for arch in ARCHES if arch.startswith("gfx9")]
PROGRAMS = {
    "one tile": lambda: gemm(32),
    "five tiles": lambda: gemm(160),
    "no stages": lambda: gemm(96, stages=0),
    "three stages": lambda: gemm(192, stages=3),
    "deep tiles": lambda: gemm(256, depth=64),
    "ragged rows": lambda: gemm(160, rows=200),
    "bfloat16": lambda: gemm(96, dtype="bfloat16"),
    "float32": lambda: gemm(96, dtype="float32", block=64),
    "attention": lambda: attention(256),
    "attention in three stages": lambda: attention(320, stages=3),
    "transpose": lambda: transpose(64),
    "row sums": lambda: row_sums(1024),
}
DIRECT = {"one tile", "five tiles", "three stages", "deep tiles", "ragged rows", "bfloat16", "float32", "attention",
          "attention in three stages"}  # fmt: skip


@cache
def compiled(name: str, arch: str) -> HipCode:
    kernel = tilelang.compile(PROGRAMS[name](), target={"kind": "hip", "arch": arch})
    code = kernel._runner.code
    assert isinstance(code, HipCode)
    return code


def pointers(code: HipCode) -> tuple[str, list[int]]:
    """The letters and values of the arguments, all of which are addresses."""
    count = len(code.source.launches[0].arguments)
    return "Q" * count, [number << 40 for number in range(1, count + 1)]


@pytest.mark.slow(every=48)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_limits_hold(name: str, arch: str) -> None:
    code = compiled(name, arch)
    for launch in code.source.launches:
        check_limits(code, launch.name, launch.threads[0])


@pytest.mark.slow
@pytest.mark.parametrize("arch", CDNA)
@pytest.mark.parametrize("name", PROGRAMS)
def test_accesses_of_lds_are_waited_for(name: str, arch: str) -> None:
    code = compiled(name, arch)
    (launch,) = code.source.launches
    loads = check_waits(code, launch.name, launch.threads[0], *pointers(code))
    assert (arch == "gfx950" and name in DIRECT) == (loads > 0)


def test_a_wait_or_barrier_that_is_missing_is_found() -> None:
    """The product on gfx950 has one wait for direct loads and one barrier in its loop, and needs both."""
    code = compiled("five tiles", "gfx950")
    (launch,) = code.source.launches
    found = []
    for place, inst in kernel_code(code.binary, launch.name, "gfx950").instructions.items():
        weaker = 0xBF8C0000 | inst.simm16 + 1 if inst.op.name == "S_WAITCNT" else 0xBF800000
        loads = inst.op.name == "S_WAITCNT" and inst.simm16 & 0xC00F == 0
        if not loads and inst.op.name != "S_BARRIER":
            continue
        changed = kernel_code(code.binary, launch.name, "gfx950")
        changed.instructions[place] = decoder.decode_inst(weaker.to_bytes(4, "little"), "cdna")
        try:
            size = code.resources[launch.name].shared_bytes
            follow(changed, argument_memory(*pointers(code)), threads=launch.threads[0], lds_bytes=size)
        except Hazard as hazard:
            found.append((inst.op.name, str(hazard).rpartition(": ")[2]))
    assert ("S_WAITCNT", "a direct load has not been waited for") in found
    assert "S_BARRIER" in dict(found)
