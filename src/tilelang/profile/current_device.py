"""The device on which the current framework creates tensors."""

from __future__ import annotations

import sys
from typing import Any

from tilelang.api import public


@public
def get_current_device() -> Any:
    """The number of torch's current GPU; the torch device "cpu" where it has none, and "cpu" without torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return "cpu"
    return torch.cuda.current_device() if torch.cuda.is_available() else torch.device("cpu")
