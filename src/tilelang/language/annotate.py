"""`T.annotate_*`, `T.use_swizzle`, `T.func_attr`: what a kernel says about itself.

Takes facts about buffers, notes them on the kernel being staged. Invariant: none of them changes a result, but for
`T.annotate_safe_value`, which says what a guarded load gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilelang.errors import ProgramError, ProgramTypeError, ProgramValueError, StagingError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, ExprLike, as_expr, cast
from tilelang.ir.func import COMPILE_FLAGS, PASS_CONFIGS
from tilelang.language.allreduce import Reducer
from tilelang.language.api import api
from tilelang.language.proxy import BufferProxy
from tilelang.language.regions import as_buffer
from tilelang.language.stage import Hints, current
from tilelang.options import CompileOptions

__all__ = [
    "annotate_compile_flags",
    "annotate_l2_hit_ratio",
    "annotate_min_blocks_per_sm",
    "annotate_pass_configs",
    "annotate_restrict_buffers",
    "annotate_safe_value",
    "attr",
    "func_attr",
    "func_name",
    "use_swizzle",
]


@api
def annotate_safe_value(values: Mapping[BufferProxy, ExprLike]) -> None:
    """Says what a load outside of a global tensor gives; 0 without it.

    Args:
        values: From global tensor to number.

    Raises:
        ProgramError: The buffer is not global, or the value not a number.

    Example:
        `T.annotate_safe_value({A: -T.infinity(T.float32)})`
    """
    what = "T.annotate_safe_value"
    hints = kernel_hints(what)
    for proxy, value in mapping_items(what, values):
        buffer = as_buffer(proxy, what)
        _check_global(what, buffer, "only loads from global tensors are guarded")
        hints.safe_values[buffer] = cast(as_expr(value), buffer.dtype)  # type: ignore[arg-type]


@api
def annotate_l2_hit_ratio(ratios: Mapping[BufferProxy, float]) -> None:
    """Says which share of a global tensor's accesses should stay in the L2 cache; steers GPU targets only.

    Raises:
        ProgramError: The buffer is not global, or a ratio is not between 0 and 1.
    """
    what = "T.annotate_l2_hit_ratio"
    hints = kernel_hints(what)
    for proxy, given in mapping_items(what, ratios):
        buffer = as_buffer(proxy, what)
        _check_global(what, buffer, "only global tensors go through the L2 cache")
        ratio = given.value if isinstance(given, Const) else given
        if not isinstance(ratio, int | float) or not 0 <= ratio <= 1:
            raise ProgramError(f"{what}: {given!r:.40} for '{buffer.name}' is not a number between 0 and 1")
        hints.l2_hit_ratios[buffer] = float(ratio)


@api
def use_swizzle(panel_size: int, order: str = "row", enable: bool = True) -> None:
    """Asks for blocks to be walked in panels, so that neighbors in time share data; changes no result.

    Args:
        panel_size: Blocks per panel.
        order: "row", "column", or "mlx", which asks for nothing here.
        enable: False does nothing.

    Raises:
        ProgramValueError: The size is not positive or the order another one.
    """
    hints = kernel_hints("T.use_swizzle")
    if not enable:
        return
    if isinstance(panel_size, bool) or not isinstance(panel_size, int) or panel_size < 1:
        raise ProgramValueError(
            f"T.use_swizzle: panel_size is {panel_size!r:.40}, not a positive int", hint="write T.use_swizzle(10)"
        )
    known = {"row": "row", "column": "column", "col": "column", "mlx": ""}
    if order not in known:
        raise ProgramValueError(f"T.use_swizzle: order is {order!r}", hint="write order='row' or order='column'")
    if known[order]:
        hints.swizzle = (panel_size, known[order])


@api
def annotate_restrict_buffers(*buffers: BufferProxy) -> None:
    """Says that the memory of these tensors overlaps no other; steers only, and is what is taken for granted anyway.

    Raises:
        ProgramError: One of them is no whole buffer.
    """
    current("T.annotate_restrict_buffers")
    for proxy in buffers:
        as_buffer(proxy, "T.annotate_restrict_buffers")


@api
def annotate_compile_flags(flags: str | Sequence[str]) -> None:
    """Gives the function flags for the compiler of the generated source, in front of `compile_flags` of a compilation.

    Raises:
        ProgramTypeError: They are neither text nor a sequence of texts.

    Example:
        `T.annotate_compile_flags(["-O3"])`
    """
    what = "T.annotate_compile_flags"
    given = [flags] if isinstance(flags, str) else flags
    if not isinstance(given, list | tuple) or not all(isinstance(flag, str) for flag in given):
        raise ProgramTypeError(f"{what}: {flags!r:.60} is neither text nor a list of texts")
    attrs = current(what).attrs
    attrs[COMPILE_FLAGS] = [*attrs.get(COMPILE_FLAGS, ()), *given]  # type: ignore[misc]


@api
def annotate_pass_configs(configs: Mapping[str, object]) -> None:
    """Gives the function switches of the compiler; `pass_configs` of a compilation win where both speak.

    Raises:
        ProgramError: They are no dict.
        OptionError: A key is unknown or a value means nothing.

    Example:
        `T.annotate_pass_configs({tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})`
    """
    what = "T.annotate_pass_configs"
    attrs = current(what).attrs
    given = {str(getattr(key, "value", key)): value for key, value in mapping_items(what, configs)}
    CompileOptions.from_user(given)
    attrs[PASS_CONFIGS] = {**attrs.get(PASS_CONFIGS, {}), **given}  # type: ignore[dict-item]


@api
def annotate_min_blocks_per_sm(count: int) -> None:
    """Requests `count` blocks per multiprocessor at a time; steers GPU targets only.

    Raises:
        ProgramError: The count is not a positive int.
    """
    hints = kernel_hints("T.annotate_min_blocks_per_sm")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ProgramError(f"T.annotate_min_blocks_per_sm: {count!r:.40} is not a positive int")
    hints.min_blocks_per_sm = count


@api
def func_name(name: str) -> None:
    """Names the function, as `T.func_attr({"global_symbol": name})` does."""
    func_attr({"global_symbol": name})


@api
def func_attr(attributes: Mapping[str, object]) -> None:
    """Attaches free-form facts to the function, kept in `PrimFunc.attrs`; "global_symbol" is the function's name.

    Raises:
        ProgramError: A key is no text, or the name of the function no name.

    Example:
        `T.func_attr({"global_symbol": "main"})`
    """
    stager = current("T.func_attr")
    for name, value in mapping_items("T.func_attr", attributes):
        if not isinstance(name, str):
            raise ProgramError(f"T.func_attr: {name!r:.40} is not a name")
        if name == "global_symbol" and not (isinstance(value, str) and value.isidentifier()):
            raise ProgramError(f"T.func_attr: {value!r:.40} is no name of a function", hint="write an identifier")
        stager.attrs[name] = value


class attr:
    """`T.attr(node, key, value)`, alone or after `with`: what older programs say about what follows, or stands inside.

    The key "reduce_scope" is the `T.comm_reducer` by which threads combine values. Others are hints, which are ignored.

    Raises:
        ProgramError: "reduce_scope" comes without a reducer.

    Example:
        `T.attr(0, "pragma_unroll_explicit", True)`
    """

    @api
    def __init__(self, node: object, key: str, value: object = None) -> None:
        del value
        current("T.attr")
        self._hints: Hints | None = None
        if key == "reduce_scope":
            if not isinstance(node, Reducer):
                raise ProgramError(
                    f"T.attr: {node!r:.40} does not state how threads combine values",
                    hint="write T.comm_reducer(lambda x, y: x + y, [0])",
                )
            self._hints = kernel_hints("T.attr")
            self._before, self._hints.reducer = self._hints.reducer, node

    def __enter__(self) -> None:
        """It has begun."""

    def __exit__(self, *error: object) -> None:
        """Restore the hints from before."""
        if self._hints is not None:
            self._hints.reducer = self._before


def kernel_hints(what: str) -> Hints:
    """The hints of the kernel being staged.

    Raises:
        StagingError: There is none.
    """
    hints = current(what).hints
    if hints is None:
        raise StagingError(
            f"{what}: is about one kernel, but stands outside of `with T.Kernel(...)`",
            hint="move it into the body of `with T.Kernel(...) as ...:`",
        )
    return hints


def mapping_items(what: str, mapping: object) -> list[tuple[object, object]]:
    """The checked argument of an annotation.

    Raises:
        ProgramError: It is no dict.
    """
    if not isinstance(mapping, Mapping):
        raise ProgramError(f"{what}: needs a dict, got {mapping!r:.40}", hint=f"write {what}({{A: ...}})")
    return list(mapping.items())


def _check_global(what: str, buffer: Buffer, why: str) -> None:
    if buffer.scope is not Scope.GLOBAL:
        raise ProgramError(f"{what}: '{buffer.name}' is in scope {buffer.scope.value!r}; {why}")
