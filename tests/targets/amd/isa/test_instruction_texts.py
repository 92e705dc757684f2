import re

import pytest
from hip_text import GENERATIONS, assembly_of, function_of, hip_source, needs_clang

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.targets.amd.codegen.hip_dialect import HIP
from tilelang.targets.amd.isa.instruction_texts import TEXTS
from tilelang.targets.amd.isa.types import hip_type
from tilelang.targets.gpu.isa import fence, sync, warp
from tilelang.targets.gpu.isa.extern import call_extern
from tilelang.targets.gpu.isa.sync import SYNC_GRID
from tilelang.targets.nvidia.isa.instruction_texts import TEXTS as CUDA_TEXTS


def test_every_instruction_of_all_gpus_has_a_text_but_those_of_other_machines() -> None:
    assert {"redux"} == set(CUDA_TEXTS) - set(TEXTS)  # needs what no machine of AMD has
    assert set(TEXTS) <= set(CUDA_TEXTS)


@needs_clang
@pytest.mark.parametrize("arch", GENERATIONS)
def test_a_barrier_of_the_grid_is_two_of_the_block_around_one_word(arch: str) -> None:
    template = HIP.call(SYNC_GRID)
    text = function_of("f", "int", ["int"], f"a[i]; {template.format()}; made[i + 1] = 1")
    words = assembly_of(hip_source([template.helper], [text]), arch)
    assert 2 == len(re.findall(r"s_barrier(_wait.*)?\n", words))
    assert 1 == words.count("global_atomic_add") and "s_sleep" in words
    release, acquire = {"gfx942": ("buffer_wbl2", "buffer_inv"), "gfx1100": ("", "buffer_gl1_inv")}.get(arch, ("", "inv"))
    assert release in words and acquire in words


def test_functions_of_the_user_are_called_by_name() -> None:
    assert "mine::f<int>(x, y)" == HIP.call(call_extern(None, "mine::f<int>", 2)).format("x", "y")
    assert "(float)(g())" == HIP.call(call_extern(as_dtype("float16"), "g", 0)).format()


def operands(family: str) -> tuple[str, ...]:
    if family.startswith("sync_threads_"):
        return ("(a[i] > 1)",)
    return ("~0u", "a[i]") if family.startswith("match") else ("~0u", "(a[i] > 0)")


def functions():
    for instruction in (*warp.instructions(), *sync.instructions(), *fence.instructions()):
        family = instruction.dialect_key[0]
        if family == "redux":
            continue
        template, name = HIP.call(instruction), f"f_{instruction.name}"
        if family == "shuffle":
            kind = hip_type(instruction.result)
            for way, offset in (("constant", "4"), ("any", "(int)b[i]")):
                text = template.format("~0u", "a[i]", offset, "32")
                yield [template.helper, kind.helper], function_of(f"{name}_{way}", kind.value, [kind.value] * 2, text)
        elif instruction.result is None:
            yield [template.helper], function_of(name, "int", ["int"], f"a[i]; {template.format('~0u')}; made[i + 1] = 1")
        else:
            kind, text = hip_type(instruction.result), template.format(*operands(family))
            yield [template.helper, kind.helper], function_of(name, kind.value, ["int"], text)


@pytest.mark.slow(every=12)
@needs_clang
@pytest.mark.parametrize("arch", GENERATIONS)
def test_texts_compile(arch: str) -> None:
    rows = list(functions())
    text = assembly_of(hip_source([h for helpers, _ in rows for h in helpers], [text for _, text in rows]), arch)
    assert "row_half_mirror" in text and "ds_bpermute_b32" in text
    assert "s_barrier" in text


@pytest.mark.slow(every=8)
@needs_clang
@pytest.mark.parametrize("arch", GENERATIONS)
@pytest.mark.parametrize(("offset", "instruction"), [(1, "quad_perm:[1,0,3,2]"), (2, "quad_perm:[2,3,0,1]"), (4, "row_half_mirror"), (8, "row_ror:8")])
def test_neighbors_are_reached_without_an_address(arch: str, offset: int, instruction: str) -> None:
    template = HIP.call(warp.shuffle("xor", SCALARS["float32"]))
    text = template.format("~0u", "a[i]", str(offset), "32")
    words = assembly_of(hip_source([template.helper], [function_of("f", "float", ["float"], text)]), arch)
    assert instruction in words and "ds_bpermute" not in words


@needs_clang
@pytest.mark.parametrize(("arch", "bits"), [("gfx942", 64), ("gfx1100", 32)])
def test_votes_are_of_all_lanes_of_a_wave(arch: str, bits: int) -> None:
    assert "(uint64_t)tl_ballot(m, x)" == HIP.call(warp.BALLOT_WIDE).format("m", "x")
    template = HIP.call(warp.ALL)
    text = template.format("~(tl_lanes_t)0", "a[i] > 0")
    words = assembly_of(hip_source([template.helper], [function_of("f", "bool", ["int"], text)]), arch)
    assert f"s_cmp_eq_u{bits} vcc" in words  # no lane of the wave votes against it
    assert f".wavefront_size: {bits}" in words
