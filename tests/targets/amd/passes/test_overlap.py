"""What a compiler makes of pipelines: loads are in flight while the matrix units work."""

import re

import pytest
from amd_programs import attention
from hip_text import needs_clang, printed

import tilelang.language as T
from tilelang.targets.amd.runtime.device_code import build

pytestmark = needs_clang
MATRIX = ("v_mfma", "v_wmma")


def gemm(stages, *, depth=32, threads=256):
    @T.prim_func
    def main(A: T.Tensor((512, 512), "float16"), B: T.Tensor((512, 512), "float16"), C: T.Tensor((512, 512), "float32")):
        with T.Kernel(4, 4, threads=threads) as (bx, by):
            a = T.alloc_shared((128, depth), "float16")
            b = T.alloc_shared((depth, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(512 // depth, num_stages=stages):
                T.copy(A[by * 128, k * depth], a)
                T.copy(B[k * depth, bx * 128], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 128, bx * 128])

    return main


def instructions(func, arch):
    """The instructions of a program, as it is compiled for users, each with its operands, and labels."""
    assembly = build(printed(func, arch), arch, "clang").assembly()
    lines = (line.partition(";")[0].strip() for line in assembly.splitlines())
    return [line for line in lines if re.match(r"[a-z]\w+( |$)|\.LBB\w+:", line)]


def until_computing(body):
    """What runs between each barrier and the first matrix instruction behind it, if tiles are read in between."""
    starts = [n + 1 for n, line in enumerate(body) if line.startswith(("s_barrier_wait", "s_barrier")) and "signal" not in line]
    for start in starts:
        for way in ways_to_compute(body, start, set()):
            if any(line.startswith(("ds_read", "ds_load")) for line in way):
                yield way


def ways_to_compute(body, place, seen):
    """The instructions of each way from a place to a matrix instruction, without loops."""
    way = []
    while place < len(body) and place not in seen:
        line, seen = body[place], seen | {place}
        if line.startswith(MATRIX):
            yield way
            return
        way.append(line)
        jump = re.match(r"s_(c?)branch\w* (\.LBB\w+)", line)
        if jump is not None:
            for rest in ways_to_compute(body, body.index(f"{jump[2]}:"), seen):
                yield way + rest
            if not jump[1]:
                return
        place += 1


def waits_for_all_loads(line):
    return "vmcnt(0)" in line or re.match(r"s_wait_loadcnt 0x0\b", line) is not None


@pytest.mark.slow(every=16)
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201"])
@pytest.mark.parametrize("stages", [2, 3])
def test_tiles_of_the_next_iteration_are_not_waited_for_before_those_of_this_one_are_multiplied(arch, stages):
    body = instructions(gemm(stages, threads=256 if arch.startswith("gfx9") else 128), arch)
    parts = list(until_computing(body))
    assert parts
    for part in parts:
        loads = [n for n, line in enumerate(part) if line.startswith(("global_load", "buffer_load"))]
        assert not any(map(waits_for_all_loads, part[loads[0] :] if loads else ()))
    assert not any("inv" in line for line in body)


def test_tiles_that_take_turns_are_loaded_without_branches_while_the_others_are_multiplied():
    """Of the queries, keys and values of attention the latter two take turns, for which zeros stand in the last iteration."""
    body = instructions(attention(1024, dim=128, held=True), "gfx1100")
    kinds = {"buffer_load": "L", "v_wmma": "M", "ds_store": "S", "s_cbranch": "|", ".LBB": "|"}
    short = "".join(kind for line in body for name, kind in kinds.items() if line.startswith(name))
    (loop,) = re.findall("[LMS]*L[LMS]*", short)
    loads = re.fullmatch("L{8}(M{30,32})S{8}L{8}(M{32,34})S{8}", loop)
    assert loads is not None
    assert 64 == len(loads[1] + loads[2])


@pytest.mark.parametrize(("stages", "count"), [(2, 0), (3, 4), (4, 8)])
def test_direct_loads_are_waited_for_by_their_number(stages, count):
    body = instructions(gemm(stages), "gfx950")
    waits = [line for line in body if line.startswith("s_waitcnt vmcnt")]
    assert f"s_waitcnt vmcnt({count})" in waits
    # besides those of the loop, one for each version of a tile, and behind it there are none, none before reads of LDS
    assert (stages if 16 % stages == 0 else 1) + 1 == len(waits)
    # more versions than two are loaded in the last iterations, too, which load nothing: by a pointer to zeros
    load = "buffer_load_dwordx4 .* offen lds" if stages == 2 else "global_load_lds_dwordx4"
    assert any(re.match(load, line) for line in body)
