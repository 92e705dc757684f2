"""The name of each dtype that torch has, by torch's object; importing this imports torch."""

from __future__ import annotations

import torch

from tilelang.dtypes import SCALARS

TORCH_DTYPE_TO_STR: dict[object, str] = {
    getattr(torch, name): name for name in SCALARS if isinstance(getattr(torch, name, None), torch.dtype)
}
