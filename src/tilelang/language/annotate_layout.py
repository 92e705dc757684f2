"""`T.annotate_layout`: where the elements of a buffer lie, and which thread holds what of a fragment.

Takes layouts, notes them on the kernel being staged. Invariant: the layout of a shared buffer is injective and changes
no result; that of a global tensor is a bijection of its elements, and changes where this kernel finds them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tilelang.errors import ProgramError, ProgramValueError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import as_expr, int_const
from tilelang.ir.launch import TensorLayout
from tilelang.language.annotate import kernel_hints, mapping_items
from tilelang.language.api import api
from tilelang.language.extents import difference, product, shape_text, text
from tilelang.language.proxy import BufferProxy
from tilelang.language.regions import as_buffer
from tilelang.language.stage import current
from tilelang.layout.collisions import first_collision
from tilelang.layout.fragment import Fragment
from tilelang.layout.layout import Layout
from tilelang.layout.partial_fragment import PartialFragment

__all__ = ["annotate_layout"]

_SAMPLES = 1 << 16  # coordinates of a large tensor that are looked at


@api
def annotate_layout(layouts: Mapping[BufferProxy, Layout | Fragment]) -> None:
    """Says how buffers lie in memory, and which thread holds what of a fragment.

    A shared buffer or fragment means the same under every layout; GPU targets obey. A global tensor does not: in this
    kernel, before and after this line, element x of it lies where the layout leads x, counted row-major in the layout's
    output shape, inside the tensor's own memory. What one kernel has written so, another one with the same annotation
    reads back; without it, the order is the permuted one. `T.view` of such a tensor is refused.

    Args:
        layouts: From shared buffer to `T.Layout`, `T.make_swizzled_layout(buffer)` or an index function, from fragment
            to `T.Fragment`, from global tensor to `T.Layout`, from reducer to `T.PartialFragment`, which only steers.

    Raises:
        ProgramError: Something else than a whole buffer is given, or a scope that has no layout. The others:
        ProgramValueError: A value is no layout, its shape differs from its buffer's, the layout of a shared buffer is
            not injective, that of a global tensor is no bijection onto as many elements, or a buffer in memory has the
            layout of a fragment.

    Example:
        `T.annotate_layout({A_s: T.make_swizzled_layout(A_s)})`
    """
    what = "T.annotate_layout"
    hints = kernel_hints(what)
    for proxy, layout in mapping_items(what, layouts):
        buffer = as_buffer(proxy, what)
        if callable(layout) and not isinstance(layout, Layout):
            shape = [int_const(extent) for extent in buffer.shape]
            layout = Layout([e if n is None else n for e, n in zip(buffer.shape, shape, strict=True)], layout)
        _check_layout(what, buffer, layout)
        if isinstance(layout, PartialFragment):
            _check_reducer(what, buffer)
            continue  # how threads hold parts of totals changes no result
        assert isinstance(layout, Layout)
        if buffer.scope is Scope.GLOBAL:
            hints.tensor_layouts[buffer] = _of_tensor(what, buffer, layout)
        else:
            hints.layouts[buffer] = layout.thread_values if isinstance(layout, Fragment) else layout


def _check_layout(what: str, buffer: Buffer, layout: object) -> None:
    hint = f"write T.make_swizzled_layout({buffer.name}) or T.Layout(shape, lambda i, j: ...)"
    if not isinstance(layout, Layout):
        raise ProgramValueError(f"{what}: {layout!r:.40} for '{buffer.name}' is not a layout", hint=hint)
    if isinstance(layout, Fragment) and buffer.scope is not Scope.FRAGMENT:
        memory = "global" if buffer.scope is Scope.GLOBAL else "shared"
        raise ProgramValueError(f"{what}: '{buffer.name}' is in {memory} memory, where no thread holds it", hint=hint)
    same = len(layout.shape) == buffer.rank and all(
        difference(as_expr(a), b) == 0 for a, b in zip(layout.shape, buffer.shape, strict=True)
    )
    if not same:
        raise ProgramValueError(
            f"{what}: '{buffer.name}' is {shape_text(buffer.shape)} but its layout is {shape_text(layout.shape)}",
            hint=f"give the layout the shape of the buffer, {shape_text(buffer.shape)}",
        )
    if buffer.scope is Scope.SHARED:
        _check_injective(f"{what}: the layout of shared buffer `{buffer.name}`", layout)


def _check_reducer(what: str, buffer: Buffer) -> None:
    if buffer not in current(what).reducers:
        raise ProgramValueError(
            f"{what}: '{buffer.name}' holds no parts of totals, so a PartialFragment says nothing of it",
            hint="write T.Fragment, or allocate it with T.alloc_reducer",
        )


def _check_injective(subject: str, layout: Layout) -> None:
    """Refuses a layout that leads two coordinates to one place, or one to a negative place.

    Of shapes that are not small, a sample of the coordinates is looked at; of symbolic ones, none.
    """
    if not all(isinstance(extent, int) for extent in layout.shape):
        return
    if layout.is_small:
        numbers = np.arange(math.prod(layout.shape))
        places = layout.table.reshape(len(numbers), layout.table.shape[-1])
    else:
        numbers = np.unique(np.random.default_rng(0).integers(0, math.prod(layout.shape), _SAMPLES))
        given = layout(*np.unravel_index(numbers, layout.shape))
        places = np.stack([np.broadcast_to(np.asarray(place), len(numbers)) for place in given], axis=-1)
    if not len(places):
        return
    if places.min() < 0:
        where = np.unravel_index(int(numbers[places.min(axis=1).argmin()]), layout.shape)
        raise ProgramValueError(f"{subject} leads {_coordinate(where)} to a negative place")
    found = first_collision(places)
    if found is not None:
        one, other = (_coordinate(np.unravel_index(int(numbers[at]), layout.shape)) for at in found)
        raise ProgramValueError(
            f"{subject} must be injective, but {one} and {other} both map to physical coordinates "
            f"{_coordinate(places[found[0]])}",
            hint="a layout gives every coordinate a place of its own",
        )


def _of_tensor(what: str, buffer: Buffer, layout: Layout) -> TensorLayout:
    subject = f"{what}: the layout of global tensor `{buffer.name}`"
    if buffer.strides is not None or buffer.view_of is not None:
        kind = "has strides" if buffer.strides is not None else "is a view"
        raise ProgramError(
            f"{subject} has no meaning, since '{buffer.name}' {kind}", hint="annotate a dense parameter of the kernel"
        )
    _check_injective(subject, layout)
    box = tuple(as_expr(extent) for extent in layout.output_shape)
    constant = int_const(product(box)), int_const(product(buffer.shape))
    if None not in constant and constant[0] != constant[1]:
        raise ProgramValueError(
            f"{subject} leads {text(product(buffer.shape))} elements into a box of {shape_text(box)}, but must be a "
            "bijection onto as many",
            hint="a layout of a global tensor leaves no gaps",
        )
    variables = layout.get_forward_vars()
    return TensorLayout(variables, tuple(as_expr(place) for place in layout(*variables)), box)


def _coordinate(coordinate: object) -> str:
    return f"({', '.join(str(int(c)) for c in coordinate)})"  # type: ignore[attr-defined]
