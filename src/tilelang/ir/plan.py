"""What a lowering decided about a tile operator: the operator keeps it, and nobody works it out again."""

from __future__ import annotations


class Plan:
    """How a lowering does a tile operator, as it decided when it accepted it.

    It says nothing of buffers, so that it holds as long as the operator's extents, dtypes and scopes do: versions of
    tiles come later. Lowerings that decide something have records of their own. Its text is what the printed program
    says beside the lowering's name.
    """

    def __str__(self) -> str:
        return ""
