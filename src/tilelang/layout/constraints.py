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
class Why:
    """The reason of a constraint: text, such as "T.gemm accumulates in it", and the location."""

    text: str
    loc: Loc = NOWHERE


@record(slots=True)
class FixedLayout:
    """An instruction or the user fixes a fragment's layout; value digits may come in any order."""

    var: Hashable
    layout: Fragment
    why: Why


@record(slots=True)
class AccessLayout:
    """Element `access(x)` of `var` is used by the thread that owns x of `loop`.

    `loop` is a loop nest, or a fragment whose elements are folded or moved into `var`.

    Attributes:
        var: The fragment that is accessed.
        loop: What distributes the work.
        access: Coordinates of `loop`, and of what each thread walks alone, to coordinates of `var`.
        why: The reason.
        writes: Whether elements are stored, so that every copy of them must be; copies more than needed may be read.
        free: How many of the last inputs of `access` each thread walks alone, such as a serial loop in the nest.
    """

    var: Hashable
    loop: Hashable
    access: DigitMap
    why: Why
    writes: bool = True
    free: int = 0


@record(slots=True)
class Alias:
    """`var` is another name of the registers of `storage`, so that the layout of one is that of the other.

    Attributes:
        var: The other name.
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
        candidates: Best first.
        why: The reason.
        weight: What is at stake, such as the bytes that a loop moves.
        vector: Neighbors along the last dimension that a thread should have, for layouts made from those of others.
    """

    var: Hashable
    candidates: tuple[Fragment, ...]
    why: Why
    weight: int = 0
    vector: int = 1


@record(slots=True)
class SharedLayout:
    """A shared buffer should lie like this, so that the accesses of an instruction meet no bank conflicts.

    Attributes:
        var: The buffer.
        layout: How it should lie.
        why: The reason.
        required: Whether the instruction finds nothing in another layout.
    """

    var: Hashable
    layout: Layout
    why: Why
    required: bool = False


Constraint = FixedLayout | AccessLayout | Alias | LayoutChoice | SharedLayout
