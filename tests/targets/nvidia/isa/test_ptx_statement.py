import pytest
from device_text import ARCHITECTURES, compile_cuda, cuda_source, needs_cuda_compiler

from tilelang.isa.instruction import Effect, ExecutionScope
from tilelang.isa.intrinsic import Helper, ordered_helpers
from tilelang.targets.nvidia.isa.async_units import WGMMA
from tilelang.targets.nvidia.isa.ptx_statement import Argument, global_address, ptx_statement, register, shared_address
from tilelang.targets.nvidia.machines import Feature


def made(statement, *arguments, **more):
    return ptx_statement(
        "thing", statement, arguments, lambda warp: None, "Does it.", **{"source": "m", "needs": Feature.TMA, **more}
    )


def test_a_statement_without_operands_is_a_function_without_arguments():
    record = made("fence.proxy.async;")
    assert "tl_thing()" == record.texts["cuda"]
    assert """\
// Does it.
__device__ __forceinline__ void tl_thing() {
    asm volatile("fence.proxy.async;" ::: "memory");
}
""" == record.helpers["cuda"].text  # fmt: skip


def test_operands_are_numbered_as_the_arguments_are():
    record = made("st [%0], {%1, %2};", shared_address("dst"), register("int", "a"), global_address("b", const=True))
    assert "tl_thing({0}, {1}, {2})" == record.texts["cuda"]
    assert "void tl_thing(void* dst, int a, const void* b)" in record.helpers["cuda"].text
    assert (
        ': "r"((unsigned)__cvta_generic_to_shared(dst)), "r"(a), "l"(b)\n'
        in record.helpers["cuda"].text
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "constraint"), [("int", "r"), ("unsigned", "r"), ("unsigned short", "h"), ("unsigned long long", "l")]
)
def test_the_constraint_of_a_number_is_that_of_its_size(kind, constraint):
    assert Argument(f"{kind} x", f'"{constraint}"(x)') == register(kind, "x")


def test_arguments_bring_the_helpers_of_their_types_once():
    kind = Helper("map", "struct map {};\n")
    map_argument = Argument("const map* m", '"l"(m)', "&{}", kind)
    record = made("prefetch [%0], [%1];", map_argument, map_argument)
    assert "tl_thing(&{0}, &{1})" == record.texts["cuda"]
    assert ["map", "tl_thing"] == [each.name for each in ordered_helpers(record.helpers.values())]


def test_what_is_said_of_the_instruction_stands_in_its_record():
    record = made("x;", execution_scope=ExecutionScope.WARP, async_unit=WGMMA, effect=Effect.COMMIT)
    assert (ExecutionScope.WARP, WGMMA, Effect.COMMIT, Feature.TMA, "m") == (
        record.execution_scope, record.async_unit, record.effect, record.needs, record.source,
    )  # fmt: skip


@needs_cuda_compiler
def test_the_text_compiles():
    record = made("st.shared.u32 [%0], %1;", shared_address("dst"), register("unsigned", "x"), needs=Feature.NONE)
    call = record.texts["cuda"].format("words", "7u")
    kernel = f"__global__ void kernel() {{ __shared__ unsigned words[1]; {call}; }}"
    compile_cuda(cuda_source([record.helpers["cuda"]], [kernel]), ARCHITECTURES[0])
