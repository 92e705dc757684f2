"""The constraints of operators and accesses on layouts; the solver reads them, a conflict names the two that disagree.

A variable is anything hashable: the buffer, or the loop, that gets a layout.
"""

from __future__ import annotations

from collections.abc import Hashable

from tilelang.errors import NOWHERE, Loc
from tilelang.layout.digits import DigitMap
from tilelang.layout.layout import Layout
from tilelang.layout.thread_values import Fragment
from tilelang.records import record


@record(slots=True)
class Reason:
    """The reason of a constraint: text, such as "T.gemm accumulates in it", and the location."""

    text: str
    loc: Loc = NOWHERE

    def __str__(self) -> str:
        return f"{self.text} (line {self.loc.line})" if self.loc.line else self.text


@record(slots=True)
class FixedLayout:
    """An instruction or the user fixes a fragment's layout; value digits may come in any order.

    Attributes:
        var: The fragment.
        layout: The layout.
        reason: The reason.
        other: A layout that will do as well, if one that is fixed elsewhere leads to it.
    """

    var: Hashable
    layout: Fragment
    reason: Reason
    other: Fragment | None = None


@record(slots=True)
class AccessLayout:
    """Element `access(x)` of `var` is used by the thread that owns x of `loop`.

    `loop` is a loop nest, or a fragment whose elements are reduced or copied into `var`.

    Attributes:
        var: The fragment that is accessed.
        loop: What distributes the work.
        access: Coordinates of `loop`, then per-thread inputs, to coordinates of `var`.
        reason: The reason.
        writes: Whether elements are stored; then every replica must be stored. Reads may use any replica.
        free: Number of per-thread inputs of `access`, such as a serial loop in the nest; they are the last ones.
        item_bytes: What a conversion of one element of `var` counts.
    """

    var: Hashable
    loop: Hashable
    access: DigitMap
    reason: Reason
    writes: bool = True
    free: int = 0
    item_bytes: int = 1


@record(slots=True)
class Alias:
    """`var` is a view of the registers of `storage`, so that the layout of one determines that of the other.

    Attributes:
        var: The view.
        storage: The fragment that owns the registers.
        names: Coordinates of `storage` to coordinates of `var`.
        back: Coordinates of `var` to coordinates of `storage`.
    """

    var: Hashable
    storage: Hashable
    names: DigitMap
    back: DigitMap


@record(slots=True)
class LayoutChoice:
    """A free choice, best first; the heaviest choices are made first.

    Attributes:
        var: The fragment or loop nest.
        candidates: Layouts, best first.
        reason: The reason.
        weight: Its importance, such as the bytes that a loop moves.
        vector: Consecutive elements along the last dimension per thread, for layouts derived from others.
    """

    var: Hashable
    candidates: tuple[Fragment, ...]
    reason: Reason
    weight: int = 0
    vector: int = 1


@record(slots=True)
class SharedLayout:
    """A layout of a shared buffer that avoids bank conflicts of an instruction, or is required by it.

    Attributes:
        var: The buffer.
        layout: The layout.
        reason: The reason.
        required: Whether the instruction supports no other layout.
    """

    var: Hashable
    layout: Layout
    reason: Reason
    required: bool = False


Constraint = FixedLayout | AccessLayout | Alias | LayoutChoice | SharedLayout
