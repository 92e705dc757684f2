import string

import numpy as np
import pytest
from device_text import ARCHITECTURES, compile_cuda, cuda_source, needs_cuda_compiler
from instruction_operands import Address, Mask, operands
from warp_alone import FULL, WarpAlone, run

from tilelang.dtypes import DType
from tilelang.errors import SimulationError
from tilelang.ir.buffer import Scope
from tilelang.isa.instruction import Effect, ExecutionScope, Instruction
from tilelang.targets.nvidia.codegen.cuda_dialect import CUDA
from tilelang.targets.nvidia.isa.catalogue import GPU_MODULES, MODULES, instructions
from tilelang.targets.nvidia.isa.types import INTEGERS, cuda_type
from tilelang.targets.target import Target

LANES = np.arange(32)
INSTRUCTIONS = instructions()
PLAIN = {name: record for name, record in INSTRUCTIONS.items() if operands(name) is not None}


def test_names_are_given_once():
    assert sum(1 for module in (*GPU_MODULES, *MODULES) for _ in module.instructions()) == len(INSTRUCTIONS)


@pytest.mark.parametrize("family", sorted({name.split("_")[0] for name in INSTRUCTIONS}))
def test_records_are_complete(family):
    for name, record in INSTRUCTIONS.items():
        if name.split("_")[0] == family:
            assert isinstance(record, Instruction)
            assert "," in record.source or "Manual" in record.source or "Guide" in record.source, name
            assert CUDA.call(record).text, name
            places = {int(field) for _, field, _, _ in string.Formatter().parse(CUDA.call(record).text) if field}
            given = operands(name)
            assert given is None or set(range(len(given))) == places, name
            assert record.effect is not Effect.SYNC_BLOCK or record.execution_scope is ExecutionScope.BLOCK


def argument(warp, operand):
    """An operand for the simulation of one instruction."""
    if isinstance(operand, Address):
        scope = Scope.SHARED if operand.scope == "shared" else Scope.GLOBAL
        pointer = warp.buffer(operand.dtype, np.arange(32 * 16) % 2 == 1, scope)
        return pointer + LANES * 16
    if isinstance(operand, DType):
        shape = (32, operand.lanes) if operand.lanes > 1 else (32,)
        return (np.arange(32 * operand.lanes) % 2).reshape(shape).astype(operand.numpy)
    return FULL if isinstance(operand, Mask) else operand


def test_every_meaning_runs_and_gives_values_of_its_dtype():
    for name, record in PLAIN.items():
        warp = WarpAlone()
        arguments = [argument(warp, operand) for operand in operands(name)]
        if name == "trap":
            with pytest.raises(SimulationError):
                run(record, warp)
            continue
        value = run(record, warp, *arguments)
        if record.result is None:
            assert value is None, name
        else:
            lanes = (record.result.lanes,) if record.result.lanes > 1 else ()
            assert (name, record.result.numpy, (32, *lanes)) == (name, value.dtype, value.shape)


def function(number, name):
    """A function around one call, and the helpers that it needs."""
    record, heads, places = PLAIN[name], [], []
    helpers = [INTEGERS, CUDA.call(record).helper]
    for place, operand in enumerate(operands(name)):
        places.append(str(operand) if isinstance(operand, int) else f"a{place}")
        if isinstance(operand, Address):
            kind = cuda_type(operand.dtype)
            heads.append(f"{kind.name}* a{place}")
            helpers.append(kind.helper)
        elif isinstance(operand, DType):
            kind = cuda_type(operand)
            heads.append(f"{kind.value} a{place}")
            helpers.append(kind.helper)
        elif isinstance(operand, Mask):
            heads.append(f"uint32_t a{place}")
    text = CUDA.call(record).format(*places)
    if record.result is None:
        return helpers, f"__device__ void f{number}({', '.join(heads)}) {{ {text}; }}"
    kind = cuda_type(record.result)
    helpers.append(kind.helper)
    return helpers, f"__device__ {kind.value} f{number}({', '.join(heads)}) {{ return {text}; }}"


@needs_cuda_compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_text_compiles_where_the_target_has_the_instruction(architecture):
    target = Target("cuda", architecture)
    rows = [
        function(number, name)
        for number, (name, record) in enumerate(PLAIN.items())
        if target.has(record.needs) and not name.startswith("atomic")  # those are compiled in test_atomic_text
    ]
    source = cuda_source([helper for helpers, _ in rows for helper in helpers], [text for _, text in rows])
    assert compile_cuda(source, architecture)
