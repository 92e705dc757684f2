import pytest
from fake_cuda import scalar, tensor

from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.expr import Expr, Var
from tilelang.ir.func import Param, ScalarParam
from tilelang.runtime.argument_specs import ArgumentSpec, Kind, Rule, make_specs

M, N, S = (Var(name, INT32, index=True) for name in "MNS")


def specs(*params: Param, outputs: tuple[int, ...] = ()) -> tuple[ArgumentSpec, ...]:
    return make_specs(params, [i for i in range(len(params)) if i not in outputs], frozenset({len(params) - 1}))


def rules(spec: ArgumentSpec) -> list[tuple[Rule, int]]:
    return [(extent.rule, extent.value) for extent in spec.rules]


def test_the_first_use_of_a_symbolic_extent_is_an_entry_of_the_key() -> None:
    a, b = specs(tensor("A", M, 4), tensor("B", N, M))
    assert [(Rule.KEY, 1), (Rule.CONSTANT, 4)] == rules(a)
    assert [(Rule.KEY, 2), (Rule.EQUAL, 1)] == rules(b)
    assert (False, True) == (a.written, b.written)


def test_an_extent_that_is_computed_is_an_entry_of_its_own() -> None:
    a, b = specs(tensor("A", M), tensor("B", M * 2, M))
    assert [(Rule.KEY, 2), (Rule.EQUAL, 1)] == rules(b)
    assert ["M", "M"] == [str(e.expr.name) for e in (a.extents[0], b.extents[1]) if isinstance(e.expr, Var)]


def test_entries_are_numbered_along_the_inputs_first() -> None:
    out, a = specs(tensor("C", N, M), tensor("A", M), outputs=(0,))
    assert ([(Rule.KEY, 1)], [(Rule.KEY, 2), (Rule.EQUAL, 1)]) == (rules(a), rules(out))


def test_declared_strides_have_rules() -> None:
    (a,) = specs(tensor("A", M, 4, strides=(S, tensor("x", 1).buffer.shape[0])))
    assert [(Rule.KEY, 1), (Rule.CONSTANT, 4), (Rule.KEY, 2), (Rule.CONSTANT, 1)] == rules(a)
    assert specs(tensor("A", M))[0].strides is None


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [("int8", Kind.SIGNED), ("uint64", Kind.UNSIGNED), ("bool", Kind.BOOL), ("float16", Kind.FLOAT)],
)
def test_scalars_are_of_a_kind(dtype: str, kind: Kind) -> None:
    assert kind is specs(scalar("x", dtype))[0].kind


def test_a_pointer_is_no_integer() -> None:
    assert Kind.POINTER is specs(ScalarParam(Var("p", as_dtype("int64"), index=True), pointer=True))[0].kind


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [((1,), "float32", True), ((8,), "float32", False), ((M, 1), "float32", True), ((M, 8), "float32", False),
     ((1,), "int32", False), ((1,), "bfloat16", False)],
)  # fmt: skip
def test_only_dense_tensors_of_one_element_can_be_negated(
    shape: tuple[int | Expr, ...], dtype: str, expected: bool
) -> None:
    assert expected is specs(tensor("A", *shape, dtype=dtype))[0].may_be_negated
    strided = specs(tensor("A", *shape, dtype=dtype, strides=(S,) * len(shape)))[0]
    assert (dtype == "float32") is strided.may_be_negated
