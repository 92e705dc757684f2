"""The decisions of a lowering about a tile operator, stored on the operator."""

from __future__ import annotations


class Plan:
    """The decisions of a lowering about a tile operator, made when it accepted the operator.

    A plan does not refer to buffers: it depends on extents, dtypes and scopes only. Lowerings with decisions have
    subclasses. Its text is printed beside the lowering's name.

    Attributes:
        note: What `kernel.explain()` says of it; "" for nothing.
    """

    note: str = ""

    def __str__(self) -> str:
        return ""

    def continues(self, other: Plan) -> bool:
        """Whether work by this plan may be issued while work by another one that adds to the same registers runs."""
        return False
