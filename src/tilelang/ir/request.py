"""A lowering that the user requests by calling an operator under the name of that lowering."""

from __future__ import annotations

import enum

from tilelang.records import record


@record(slots=True)
class Request:
    """The lowering that a call requires by its name; refused if that lowering cannot be used.

    Attributes:
        name: Name of the called function, such as `T.copy`.
        lowering: Name of the required lowering.
        needs: The feature that the target must have; a flag of its vendor.
        instead: The call to write to leave the choice to the compiler.
        requires: Its requirements on target and operands, as the end of a hint; may be empty.
    """

    name: str
    lowering: str
    needs: enum.Flag
    instead: str
    requires: str = ""
