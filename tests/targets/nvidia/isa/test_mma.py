"""The choice among matrix instructions."""

import pytest
from device_text import ARCHITECTURES, compile_cuda, cuda_source, needs_cuda_compiler

from tilelang.dtypes import as_dtype
from tilelang.targets.nvidia.isa.atom import mma
from tilelang.targets.nvidia.isa.ldmatrix import ldmatrix, stmatrix
from tilelang.targets.nvidia.isa.mma import ATOMS, atoms_for, choose_atom
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.target import Target

F16, F32 = as_dtype("float16"), as_dtype("float32")


def chosen(arch, a, c, k):
    atom = choose_atom(Target("cuda", arch), as_dtype(a), as_dtype(a), as_dtype(c), k)
    return None if atom is None else atom.shape


@pytest.mark.parametrize(
    ("arch", "a", "c", "k", "shape"),
    [
        ("sm_80", "float16", "float32", 32, (16, 8, 16)),
        ("sm_80", "float16", "float32", 24, (16, 8, 8)),  # nothing is padded
        ("sm_80", "float16", "float32", 3, (16, 8, 8)),
        ("sm_75", "float16", "float16", 32, (16, 8, 8)),
        ("sm_75", "bfloat16", "float32", 32, None),
        ("sm_75", "int8", "int32", 32, (8, 8, 16)),
        ("sm_80", "int8", "int32", 32, (16, 8, 32)),
        ("sm_80", "uint4", "int32", 64, (16, 8, 64)),
        ("sm_80", "tfloat32", "float32", 32, (16, 8, 8)),
        ("sm_80", "float64", "float64", 32, (8, 8, 4)),
        ("sm_90a", "float64", "float64", 32, (16, 8, 16)),
        ("sm_90a", "float64", "float64", 12, (16, 8, 4)),
        ("sm_80", "float8_e4m3fn", "float32", 32, None),
        ("sm_89", "float8_e4m3fn", "float32", 32, (16, 8, 32)),
        ("sm_90a", "float32", "float32", 32, None),
    ],
)
def test_the_least_padding_and_then_the_largest_wins(arch, a, c, k, shape):
    assert shape == chosen(arch, a, c, k)


def test_float8_kinds_mix():
    kinds = {(str(atom.a_dtype), str(atom.b_dtype)) for atom in ATOMS if atom.needs is Feature.MMA_FLOAT8}
    assert 4 == len(kinds)


def test_names_are_unique():
    assert len(ATOMS) == len({atom.name for atom in ATOMS})


def test_only_what_the_target_has_is_offered():
    assert [(16, 8, 8)] == [atom.shape for atom in atoms_for(Target("cuda", "sm_75"), F16, F16, F32)]


@needs_cuda_compiler
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_texts_compile_for_every_target_that_has_the_instruction(arch):
    target = Target("cuda", arch)
    products = [mma(atom) for atom in ATOMS]
    moves = [make(count, trans) for make in (ldmatrix, stmatrix) for count in (1, 2, 4) for trans in (False, True)]
    usable = [instruction for instruction in (*products, *moves) if target.has(instruction.needs)]
    calls = []
    for instruction in usable:
        arguments = ("r", "r + 16", "r + 32") if instruction in products else ("r", "s")
        if instruction.name.startswith("tl_stmatrix"):
            arguments = ("s", "r")
        calls.append(f"    {instruction.texts['cuda'].format(*arguments)};")
    kernel = (
        'extern "C" __global__ void kernel(unsigned* r) {\n    __shared__ uint4 s[32];\n' + "\n".join(calls) + "\n}\n"
    )
    assert compile_cuda(cuda_source([i.helpers["cuda"] for i in usable], [kernel]), arch)
