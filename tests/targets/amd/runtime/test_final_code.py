"""The checks of final code, on kernels written by hand and on such with a wait or barrier missing.

Every wait and barrier of the machine code is weakened in turn: those that order accesses of LDS must be missed.
"""

import re
from functools import cache

import pytest
from amd_final_code import argument_memory, check_limits, check_waits
from amd_lds_state import Access, Hazard, Lds
from amd_machine_code import KernelCode, decoder, kernel_code
from amd_waves import NotFollowed, follow
from hip_kernels import ARCHES, DIRECT, GEMM, REVERSE, SPILLING, needs_clang, source

from tilelang.targets.amd.runtime.device_code import HipCode, build

pytestmark = needs_clang
POINTERS = (1 << 40, 2 << 40, 3 << 40)
NOP = decoder.decode_inst((0xBF800000).to_bytes(4, "little"), "cdna")


@cache
def built(text: str, name: str, arch: str, threads: int = 256) -> HipCode:
    return build(source(text, name, threads=threads), arch, "clang")


@pytest.mark.parametrize("arch", ARCHES)
def test_limits_hold(arch: str) -> None:
    assert 1024 == check_limits(built(REVERSE, "reverse", arch), "reverse", 256).shared_bytes


def test_spills_break_the_limits() -> None:
    with pytest.raises(AssertionError):
        check_limits(built(SPILLING, "spilling", "gfx942", 1024), "spilling", 1024)


@pytest.mark.parametrize("arch", [arch for arch in ARCHES if arch.startswith("gfx9")])
def test_accesses_by_threads_are_ordered(arch: str) -> None:
    assert 0 == check_waits(built(REVERSE, "reverse", arch), "reverse", 256, "QQ", POINTERS[:2])
    for tiles in (0, 1, 2, 3):
        code = built(GEMM, "gemm", arch)
        assert 0 == check_waits(code, "gemm", 256, "QQQii", (*POINTERS, 128, 32 * tiles))


@pytest.mark.parametrize("tiles", range(7))
def test_direct_loads_are_waited_for_before_their_tile_is_read(tiles: int) -> None:
    code = built(DIRECT, "direct", "gfx950")
    assert 4 * 2 * max(1, tiles) == check_waits(code, "direct", 256, "QQQi", (*POINTERS, tiles))


# -- what must be found --------------------------------------------------------------------------------------
def hazard(code: KernelCode, tiles: int = 5) -> str:
    """What is found wrong with the kernel `direct`; empty if nothing."""
    try:
        follow(code, argument_memory("QQQi", (*POINTERS, tiles)), threads=256, lds_bytes=16384)
    except Hazard as found:
        return str(found)
    return ""


def direct() -> KernelCode:
    return kernel_code(built(DIRECT, "direct", "gfx950").binary, "direct", "gfx950")


def places(code: KernelCode, name: str) -> list[int]:
    return [place for place, inst in code.instructions.items() if inst.op.name == name]


def waits_for_memory(code: KernelCode) -> list[int]:
    return [place for place in places(code, "S_WAITCNT") if code.instructions[place].simm16 & 0xC00F != 0xC00F]


def test_every_barrier_is_needed() -> None:
    assert 2 == len(places(direct(), "S_BARRIER"))
    for place in places(direct(), "S_BARRIER"):
        code = direct()
        code.instructions[place] = NOP
        assert hazard(code)


def test_every_wait_for_a_direct_load_is_needed_as_it_is() -> None:
    assert 2 == len(waits_for_memory(direct()))
    for place in waits_for_memory(direct()):
        for weaker in (1, 2):
            code = direct()
            number = code.instructions[place].simm16 + weaker
            code.instructions[place] = decoder.decode_inst((0xBF8C0000 | number).to_bytes(4, "little"), "cdna")
            assert "has not been waited for" in hazard(code)


def test_reads_are_waited_for_before_their_tile_is_overwritten() -> None:
    code = direct()
    for place in places(code, "S_WAITCNT"):
        if place not in waits_for_memory(code):
            code.instructions[place] = NOP
    assert re.match("direct load of wave . at .* a read there has not been waited for", hazard(code))


def test_a_tile_too_few_in_lds_is_found() -> None:
    text = DIRECT.replace("(k + 1) & 1]", "0]").replace("tile[k & 1]", "tile[0]")
    code = kernel_code(built(text, "direct", "gfx950").binary, "direct", "gfx950")
    assert "" != hazard(code, 3)


def test_fences_that_do_not_wait_are_found() -> None:
    text = REVERSE.replace('__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");', "")
    with pytest.raises(Hazard, match="another wave's write has not been waited for"):
        check_waits(built(text, "reverse", "gfx942"), "reverse", 256, "QQ", POINTERS[:2])


def test_an_address_from_memory_is_not_followed() -> None:
    text = REVERSE.replace("tile[255 - t]", "tile[(int)a[t] & 255]")
    with pytest.raises(NotFollowed, match="ds_read_b32.*: the address is not known"):
        check_waits(built(text, "reverse", "gfx942"), "reverse", 256, "QQ", POINTERS[:2])


# -- the rules about LDS -------------------------------------------------------------------------------------
def access(wave: int, kind: str, *words: int) -> Access:
    import numpy as np

    return Access(wave, np.array(words), kind, "0x0")


def test_a_write_is_read_after_a_wait_and_a_barrier() -> None:
    lds = Lds(2, 64)
    write, read = access(0, "write", 1, 2), access(1, "read", 2, 1)
    lds.start(write)
    with pytest.raises(Hazard, match="another wave's write has not been waited for"):
        lds.start(read)
    lds.finish(write)
    with pytest.raises(Hazard, match="no barrier separates it from another wave's write"):
        lds.start(read)
    lds.barrier()
    lds.start(read)
    with pytest.raises(Hazard, match="a read there has not been waited for"):
        lds.start(access(0, "write", 1))
    lds.finish(read)
    with pytest.raises(Hazard, match="no barrier separates it from another wave's read"):
        lds.start(access(0, "direct load", 1))
    lds.barrier()
    lds.start(access(0, "direct load", 1))


def test_threads_of_one_wave_access_in_order_and_direct_loads_do_not() -> None:
    lds = Lds(1, 64)
    lds.start(access(0, "write", 3))
    lds.start(access(0, "read", 3))
    with pytest.raises(Hazard, match="a read there has not been waited for"):
        lds.start(access(0, "direct load", 3))
    lds = Lds(1, 64)
    lds.start(access(0, "direct load", 3))
    with pytest.raises(Hazard, match="a direct load has not been waited for"):
        lds.start(access(0, "read", 3))
    with pytest.raises(Hazard, match="a write there has not been waited for"):
        lds.start(access(0, "direct load", 3))


def test_bounds_and_what_nothing_wrote() -> None:
    lds = Lds(1, 64)
    with pytest.raises(Hazard, match="word 16 is beyond the 16 words of LDS"):
        lds.start(access(0, "write", 15, 16))
    with pytest.raises(Hazard, match="nothing has been written there"):
        lds.start(access(0, "read", 15))
