"""Functions made from descriptions: signature, documentation, checks, and the call that they emit."""

import inspect
from types import SimpleNamespace

import pytest

import tilelang.language as T
from tilelang.dtypes import INT32, SCALARS
from tilelang.errors import ProgramError, StagingTypeError
from tilelang.ir.expr import const
from tilelang.isa.function import Function, Parameter, ParameterKind
from tilelang.isa.instruction import Instruction
from tilelang.language.instruction_functions import documentation, functions_of


def check_even(what, number):
    if number % 2:
        raise ProgramError(f"{what}: {number} is odd")


def nothing(name, result=None):
    return Instruction(name, {}, {}, lambda warp, *arguments: None, result=result)


STEP = Parameter("step", ParameterKind.VALUE, "How far.", dtype=SCALARS["uint32"], check=check_even)
WALK = Function(
    "walk",
    nothing("walk"),
    "Goes on.",
    (STEP,),
    raises=("ProgramError: The step is odd.",),
    example="T.walk(2)",
    aliases=("go",),
)
READ = Function(
    "read",
    lambda dtype, how: nothing(f"read_{dtype!s}_{how}", dtype),
    "Takes an element.",
    (Parameter("element", ParameterKind.GLOBAL, access="r"), Parameter("how", ParameterKind.WORD, default="well")),
    operands=("element", const(7, INT32)),
    gives_value=True,
    result=SCALARS["float64"],
)


@pytest.fixture
def functions():
    return functions_of(SimpleNamespace(__name__="records", FUNCTIONS=(WALK, READ)))


def test_signature_and_documentation_are_those_of_the_description(functions):
    assert ["walk", "go", "read"] == list(functions)
    assert "(step: 'ExprLike') -> 'None'" == str(inspect.signature(functions["walk"]))
    assert "(element: 'Place', how: 'str' = 'well') -> 'Expr'" == str(inspect.signature(functions["read"]))
    assert ("The same as `T.walk`.", "go", "records") == (
        functions["go"].__doc__, functions["go"].__name__, functions["go"].__module__
    )  # fmt: skip
    expected = """\
Goes on.

Args:
    step: How far.

Raises:
    ProgramError: The step is odd.

Example:
    `T.walk(2)`"""
    assert expected == functions["walk"].__doc__ == documentation(WALK)


def test_a_call_converts_its_operands(functions, stager):
    assert functions["walk"](T.int32(4)) is None
    (call,) = stager.statements
    assert (WALK.instruction, "uint32", 4) == (call.routine, call.args[0].dtype, call.args[0].value)


def test_an_instruction_is_chosen_by_dtypes_and_words(functions, stager, tensor):
    value = functions["read"](tensor("A", (8,))[3])
    (call,) = stager.statements
    assert ("read_float32_well", "float64") == (call.routine.name, value.dtype)
    assert (call.args[0],) == call.reads
    assert (7, ()) == (call.args[1].value, call.writes)


def test_wrong_arguments_are_told_by_the_name_of_the_function(functions, stager):
    with pytest.raises(ProgramError, match="T.go: 3 is odd"):
        functions["go"](3)
    with pytest.raises(StagingTypeError, match="T.walk: missing a required argument: 'step'") as caught:
        functions["walk"]()
    assert "the form is T.walk(step)" == caught.value.hint
    with pytest.raises(StagingTypeError, match="T.walk: got an unexpected keyword argument 'stop'"):
        functions["walk"](2, stop=3)
