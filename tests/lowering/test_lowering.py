import dataclasses

from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, as_expr
from tilelang.lowering.lowering import LoweringContext
from tilelang.options import CompileOptions
from tilelang.targets.nvidia.backend import LOWERINGS
from tilelang.targets.nvidia.isa.tensor_box import map_fault
from tilelang.targets.target import Target


def test_a_context_holds_nothing_before_layouts_are_inferred():
    context = LoweringContext(Target("cuda", "sm_80"), CompileOptions(), 128)
    assert (None, {}, {}, {}) == (context.thread, context.fragments, context.registers, context.shared_layouts)


def test_every_row_of_the_table_says_what_it_is_called():
    for rows in LOWERINGS.values():
        names = [lowering.name for lowering in rows]
        assert len(names) == len(set(names))
        assert all(name.count(".") == 1 for name in names)


def test_every_row_accepts_constrains_and_lowers():
    for rows in LOWERINGS.values():
        for lowering in rows:
            assert all(callable(getattr(lowering, method)) for method in ("accepts", "constrain", "lower"))


def test_equal_maps_of_tensors_are_one():
    context = LoweringContext(Target("cuda", "sm_90a"), CompileOptions(), 128)
    n = Var("n", INT32, index=True)
    a, b = (Buffer(name, (n, as_expr(64)), as_dtype("float16"), Scope.GLOBAL) for name in "AB")

    def request(tensor=a, dims=(as_expr(64), n), stride=as_expr(128), box=(64, 8), swizzle=128, rounds=False):
        return context.tensor_map(tensor, dims, [stride], box, swizzle, map_fault, rounds=rounds)

    first = request()
    assert first is request(dims=[as_expr(64), n]) is dataclasses.replace(context, threads=1).tensor_map(
        a, (as_expr(64), n), (as_expr(128),), (64, 8), 128, map_fault
    )
    others = [request(b), request(dims=(as_expr(64), n + 1)), request(box=(32, 8)), request(swizzle=64)]
    others += [request(stride=as_expr(256)), request(rounds=True)]
    assert 7 == len({first, *others}) == len(context.tensor_maps.found)
    assert ("A_map", "uint64", a, (64, 8), 128) == (
        first.name, first.dtype, context.tensor_maps.found[0].tensor, *(getattr(context.tensor_maps.found[0], f) for f in
        ("box", "swizzle"))
    )  # fmt: skip
