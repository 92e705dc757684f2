from collections.abc import Callable

import pytest

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.language.proxy import BufferProxy
from tilelang.language.stage import Stager
from tilelang.layout import Layout

Tensor = Callable[..., BufferProxy]


def refused(give: Callable[[], object]) -> str:
    with pytest.raises(ProgramError) as caught:
        give()
    assert isinstance(caught.value, ValueError)
    return caught.value.message


def test_layouts_are_noted_per_buffer(stager: Stager) -> None:
    a, b = T.alloc_shared((8, 64), "float16"), T.alloc_fragment((4,))
    T.annotate_layout({a: T.make_swizzled_layout(a), b: lambda i: 3 - i})
    assert stager.hints is not None
    assert Layout((8, 64), T.make_swizzled_layout(a).forward) == stager.hints.layouts[a.buffer]
    assert Layout((4,), lambda i: 3 - i) == stager.hints.layouts[b.buffer]


def test_fragments_say_which_thread_holds_what(stager: Stager) -> None:
    a, b = T.alloc_shared((8, 64), "float16"), T.alloc_fragment((8, 64), "float16")
    layout = T.Fragment((8, 64), lambda i, j: (j, i))
    T.annotate_layout({b: layout})
    assert stager.hints is not None
    assert layout.thread_values == stager.hints.layouts[b.buffer]
    message = "T.annotate_layout: 'shared' is in shared memory, where no thread holds it"
    assert message == refused(lambda: T.annotate_layout({a: layout}))


def test_a_layout_has_the_shape_of_its_buffer(tensor: Tensor, stager: Stager) -> None:
    a = T.alloc_shared((8, 64), "float16")
    message = refused(lambda: T.annotate_layout({a: T.Layout((64, 8), lambda i, j: (i, j))}))
    assert "T.annotate_layout: 'shared' is (8, 64) but its layout is (64, 8)" == message
    message = refused(lambda: T.annotate_layout({a: "row"}))  # type: ignore[dict-item]
    assert "T.annotate_layout: 'row' for 'shared' is not a layout" == message
    with pytest.raises(ProgramError, match="T.annotate_layout: needs a dict"):
        T.annotate_layout(a)  # type: ignore[arg-type]


def test_the_layout_of_a_shared_buffer_is_injective(stager: Stager) -> None:
    a = T.alloc_shared((8, 4), "float16")
    message = refused(lambda: T.annotate_layout({a: T.Layout((8, 4), lambda i, j: (i % 4, j))}))
    assert (
        "T.annotate_layout: the layout of shared buffer `shared` must be injective, but (0, 0) and (4, 0) both map to "
        "physical coordinates (0, 0)"
    ) == message
    message = refused(lambda: T.annotate_layout({a: T.Layout((8, 4), lambda i, j: (i - 1, j))}))
    assert "T.annotate_layout: the layout of shared buffer `shared` leads (0, 0) to a negative place" == message
    T.annotate_layout({a: T.Layout((8, 4), lambda i, j: (2 * i + 10, j))})  # gaps are legal


def test_the_layout_of_a_global_tensor_is_a_bijection(tensor: Tensor, stager: Stager) -> None:
    a, n = tensor("A", (8, 4)), T.dynamic("n")
    message = refused(lambda: T.annotate_layout({a: T.Layout((8, 4), lambda i, j: (i // 2, j))}))
    assert message.startswith("T.annotate_layout: the layout of global tensor `A` must be injective, but (0, 0)")
    message = refused(lambda: T.annotate_layout({a: T.Layout((8, 4), lambda i, j: (2 * i, j))}))
    assert (
        "T.annotate_layout: the layout of global tensor `A` leads 32 elements into a box of (15, 4), but must be a "
        "bijection onto as many"
    ) == message
    message = refused(lambda: T.annotate_layout({a: T.Fragment((8, 4), lambda i, j: (i, j))}))
    assert "T.annotate_layout: 'A' is in global memory, where no thread holds it" == message
    huge = tensor("H", (1 << 14, 1 << 14))
    message = refused(lambda: T.annotate_layout({huge: lambda i, j: (i // 2 * 2, j)}))
    assert message.startswith("T.annotate_layout: the layout of global tensor `H` must be injective, but (")
    T.annotate_layout({huge: lambda i, j: (j, i), tensor("S", (n, 8)): lambda i, j: (j, i)})
    assert stager.hints is not None
    assert ["16384, 16384", "8, n"] == [
        ", ".join(map(str, layout.shape)) for layout in stager.hints.tensor_layouts.values()
    ]
