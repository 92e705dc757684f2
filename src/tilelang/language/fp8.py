"""Which float8 dtypes the device at hand computes with: `T.fp8`."""

from __future__ import annotations

import sys
from typing import Any

from tilelang.errors import DriverError, OptionError
from tilelang.language.api import api
from tilelang.language.dtypes import dtype, user_dtype

__all__ = ["determine_fp8_type", "determine_torch_fp8_type"]

_FORMATS = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
_WITHOUT_NEGATIVE_ZERO = {"e4m3": "float8_e4m3fnuz", "e5m2": "float8_e5m2fnuz"}


@api
def determine_fp8_type(fp8_format: str = "e4m3", device: Any = None) -> dtype:
    """The float8 dtype of a format: float8_e4m3fn or float8_e5m2.

    GPUs of AMD before gfx950 have dtypes without a negative zero, float8_e4m3fnuz and float8_e5m2fnuz. Source: AMD
    Instinct MI300 Instruction Set Architecture, "Data types"; OCP formats since CDNA4.

    Args:
        fp8_format: "e4m3" or "e5m2".
        device: The GPU, as torch takes it; the current one without it.

    Raises:
        ValueError: Another format.
    """
    if fp8_format not in _FORMATS:
        raise OptionError(f"determine_fp8_type: unknown format {fp8_format!r}", hint="write 'e4m3' or 'e5m2'")
    names = _WITHOUT_NEGATIVE_ZERO if _is_early_amd(device) else _FORMATS
    return user_dtype(names[fp8_format])


@api
def determine_torch_fp8_type(fp8_format: str = "e4m3", device: Any = None) -> Any:
    """The torch dtype of the same name; imports torch.

    Raises:
        ValueError: Another format than "e4m3" and "e5m2".
        RuntimeError: torch has no such dtype.
    """
    row = determine_fp8_type(fp8_format, device)
    try:
        return row.as_torch()
    except OptionError as error:
        raise DriverError(error.message, hint="pip install a newer torch") from None


def _is_early_amd(device: Any) -> bool:
    """Whether torch, where it is loaded, runs on a GPU of AMD before gfx950."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.version.hip or not torch.cuda.is_available():
        return False
    return "gfx950" not in torch.cuda.get_device_properties(device).gcnArchName
