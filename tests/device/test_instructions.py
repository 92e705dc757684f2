"""Every instruction on a GPU against its meaning in the simulator."""

import numpy as np
import pytest
from device_launch import Module, architecture, needs_gpu
from device_text import cuda_source
from instruction_operands import Address, Mask, operands
from warp_alone import FULL, WarpAlone, run

from tilelang.dtypes import DType, as_dtype
from tilelang.ir.buffer import Scope
from tilelang.targets.nvidia.codegen.cuda_dialect import CUDA
from tilelang.targets.nvidia.isa.atomic import atomic
from tilelang.targets.nvidia.isa.catalogue import instructions
from tilelang.targets.nvidia.isa.types import BITS, INTEGERS, cuda_type
from tilelang.targets.target import Target

pytestmark = needs_gpu

LANES = np.arange(32)
ALONE = ("trap", "bar_arrive", "sync_grid", "clock64", "global_timer")  # have no value to compare, or need partners
INSTRUCTIONS = instructions()
NAMES = [name for name in INSTRUCTIONS if operands(name) is not None and name not in ALONE]
ELEMENTS = 16  # of memory, that each lane has for itself


def value_array(values, dtype):
    """What a kernel reads as values of a dtype: those of its value type, or the bits of a vector."""
    if dtype.lanes > 1:
        return np.ascontiguousarray(values).view(np.uint8).copy()
    kind = cuda_type(dtype).value
    return values.astype(
        {"float": np.float32, "double": np.float64, "bool": np.bool_}.get(kind, kind.removesuffix("_t"))
    )


def sample(dtype):
    shape = (32, dtype.lanes) if dtype.lanes > 1 else (32,)
    return (np.arange(32 * dtype.lanes) * 5 % 7 % (2 if dtype.is_bool else 7)).reshape(shape).astype(dtype.numpy)


def kernel(number, name):
    """A kernel around one call, whose parameters are the operands in memory and then the result."""
    record, heads, before, places, after = INSTRUCTIONS[name], [], [], [], []
    helpers = [INTEGERS, BITS, CUDA.call(record).helper]
    for place, operand in enumerate(operands(name)):
        if isinstance(operand, Address):
            kind = cuda_type(operand.dtype)
            helpers.append(kind.helper)
            heads.append(f"{kind.name}* m{place}")
            if operand.scope == "shared":
                before.append(f"__shared__ __align__(16) {kind.name} s{place}[{32 * ELEMENTS}];")
                before.append(
                    f"for (int i = 0; i < {ELEMENTS}; ++i) s{place}[t * {ELEMENTS} + i] = m{place}[t * {ELEMENTS} + i];"
                )
                after.append('asm volatile("cp.async.wait_all;" ::: "memory");')
                after.append(
                    f"for (int i = 0; i < {ELEMENTS}; ++i) m{place}[t * {ELEMENTS} + i] = s{place}[t * {ELEMENTS} + i];"
                )
            places.append(f"({'s' if operand.scope == 'shared' else 'm'}{place} + t * {ELEMENTS})")
        elif isinstance(operand, DType):
            kind = cuda_type(operand)
            helpers.append(kind.helper)
            heads.append(f"const {kind.value}* v{place}")
            places.append(f"v{place}[t]")
        else:
            places.append("0xffffffffu" if isinstance(operand, Mask) else str(operand))
    text = CUDA.call(record).format(*places)
    if record.result is not None:
        kind = cuda_type(record.result)
        helpers.append(kind.helper)
        heads.append(f"{kind.value}* result")
        text = f"result[t] = {text}"
    lines = ["const int t = threadIdx.x;", *before, f"{text};", *after]
    return helpers, f'extern "C" __global__ void k{number}({", ".join(heads)}) {{ {" ".join(lines)} }}'


@pytest.fixture(scope="module")
def module():
    target = Target("cuda", architecture())
    rows = [kernel(number, name) for number, name in enumerate(NAMES) if target.has(INSTRUCTIONS[name].needs)]
    return Module(cuda_source([helper for helpers, _ in rows for helper in helpers], [text for _, text in rows]))


@pytest.mark.parametrize("name", NAMES)
def test_the_gpu_does_what_the_meaning_says(module, name):
    record, warp = INSTRUCTIONS[name], WarpAlone()
    arguments, arrays, memory = [], [], []
    for operand in operands(name):
        if isinstance(operand, Address):
            scope = Scope.SHARED if operand.scope == "shared" else Scope.GLOBAL
            pointer = warp.buffer(operand.dtype, (np.arange(32 * ELEMENTS) % 3).astype(np.float32), scope)
            arguments.append(pointer + LANES * ELEMENTS)
            arrays.append(warp.values(pointer).copy())
            memory.append((pointer, arrays[-1]))
        elif isinstance(operand, DType):
            arguments.append(sample(operand))
            arrays.append(value_array(arguments[-1], operand))
        else:
            arguments.append(FULL if isinstance(operand, Mask) else operand)
    result = record.result
    if result is not None:
        arrays.append(value_array(np.zeros((32, result.lanes) if result.lanes > 1 else 32, result.numpy), result))
    module.run(f"k{NAMES.index(name)}", *arrays)
    value = run(record, warp, *arguments)
    run(INSTRUCTIONS["cp_async_commit"], warp)
    run(INSTRUCTIONS["cp_async_wait"], warp, 0)
    if result is not None:
        assert value_array(value, result).tobytes() == arrays[-1].tobytes()
    for pointer, array in memory:
        assert warp.values(pointer).tobytes() == array.tobytes()


@pytest.mark.parametrize("name", ["int8", "int32", "int64", "float16", "bfloat16", "float32", "float8_e4m3fn", "uint4"])
@pytest.mark.parametrize("op", ["add", "min", "max", "xor"])
def test_lanes_and_blocks_take_turns_at_one_element(op, name):
    dtype = as_dtype(name)
    if op == "xor" and not dtype.is_int:
        pytest.skip("no bits of floats")
    record, kind = atomic(op, dtype), cuda_type(dtype)
    call = CUDA.call(record).format("m", f"{kind.value}(threadIdx.x % 4)")
    source = f'extern "C" __global__ void k({kind.name}* m) {{ {call}; }}'
    memory = np.array([1]).astype(dtype.numpy)
    Module(cuda_source([INTEGERS, CUDA.call(record).helper, kind.helper], [source])).run(
        "k", memory, threads=4, blocks=2
    )
    expected = {"add": 13, "min": 0, "max": 3, "xor": 1}[op]
    assert np.array([expected]).astype(dtype.numpy).tobytes() == memory.tobytes()
