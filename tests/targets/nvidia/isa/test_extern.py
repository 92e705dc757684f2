import pytest
from device_text import compile_cuda, cuda_source, needs_cuda_compiler
from warp_alone import WarpAlone, run

from tilelang.dtypes import as_dtype
from tilelang.errors import NoLowering, ProgramError
from tilelang.targets.nvidia.isa.extern import inline_ptx, string_literal
from tilelang.targets.nvidia.isa.types import cuda_type, lane_type

ADD = "add.f32 %0, %1, %2;"


def dtypes(*names):
    return [as_dtype(name) for name in names]


def test_operands_get_the_register_of_their_dtype():
    record = inline_ptx(ADD, dtypes("float32"), dtypes("float32", "float32"))
    expected = 'asm volatile("add.f32 %0, %1, %2;" : "=f"(*(float*)(y)) : "f"(float(a)), "f"(float(b)) : "memory")'
    assert expected == record.texts["cuda"].format("y", "a", "b")


@needs_cuda_compiler
def test_templates_compile_with_operands_of_every_size():
    rows = [
        inline_ptx(
            "{ .reg .f32 t; add.f32 t, %1, %2; mov.f32 %0, t; }", dtypes("float32"), dtypes("float32", "float32")
        ),
        inline_ptx("add.f16 %0, %1, %1;", dtypes("float16"), dtypes("float16")),
        inline_ptx("mov.b64 %0, %1;", dtypes("float32x2"), dtypes("float64")),
        inline_ptx("cvt.u32.u32 %0, %1; mov.u32 %0, %%tid.x;", dtypes("uint32"), dtypes("uint8")),
        inline_ptx("mov.b32 %0, %1;\nmov.b32 %0, %2;", dtypes("int32"), dtypes("float16x2", "bool")),
    ]
    signatures = [
        (dtypes("float32"), dtypes("float32", "float32")),
        (dtypes("float16"), dtypes("float16")),
        (dtypes("float32x2"), dtypes("float64")),
        (dtypes("uint32"), dtypes("uint8")),
        (dtypes("int32"), dtypes("float16x2", "bool")),
    ]
    functions = []
    for number, (record, (outputs, inputs)) in enumerate(zip(rows, signatures, strict=True)):
        heads = [f"{lane_type(dtype).name}* y{i}" for i, dtype in enumerate(outputs)]
        heads += [f"{cuda_type(dtype).value} x{i}" for i, dtype in enumerate(inputs)]
        call = record.texts["cuda"].format(*(head.split()[-1] for head in heads))
        functions.append(f"__device__ void f{number}({', '.join(heads)}) {{ {call}; }}")
    assert compile_cuda(cuda_source([record.helpers["cuda"] for record in rows], functions), "sm_80")


def test_a_template_names_only_operands_that_are_there():
    with pytest.raises(ProgramError) as caught:
        inline_ptx(ADD, dtypes("float32"), dtypes("float32"))
    assert "T.inline_ptx: the template names %2, but there are 2 operands" == caught.value.message


def test_values_that_fit_no_register_are_refused():
    with pytest.raises(NoLowering, match="float32x4 fits no register"):
        inline_ptx("", [], dtypes("float32x4"))
    with pytest.raises(NoLowering, match="no register of int8 can be written"):
        inline_ptx("", dtypes("int8"), [])


def test_the_users_own_text_cannot_be_simulated():
    with pytest.raises(NoLowering, match="inline PTX cannot be simulated"):
        run(inline_ptx("nop;", [], []), WarpAlone())


def test_texts_survive_templates_and_c_strings():
    assert '"a \\"b\\" {c} \\\\ \\n"' == string_literal('a "b" {c} \\ \n').format()
