"""What a user asks of an operator by calling it by the name of one way to do it, and not by its own name."""

from __future__ import annotations

import enum

from tilelang.records import record


@record(slots=True)
class Request:
    """A way to do an operator that is asked for by name: where it cannot be done so, it is refused.

    Attributes:
        name: What the user has called, as in `T.copy`.
        lowering: The name of the lowering that must do it.
        needs: What the target must be able to do for that; a flag of its vendor.
        instead: What leaves the choice to the compiler.
        requires: What it requires of the target and of its operands, as the end of a hint; empty if that goes without
            saying.
    """

    name: str
    lowering: str
    needs: enum.Flag
    instead: str
    requires: str = ""
