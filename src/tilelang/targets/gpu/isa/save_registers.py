"""The macro by which the text of a kernel keeps fewer values in registers: defined where kernels spill without it."""

from __future__ import annotations

SAVE_REGISTERS = "TL_SAVE_REGISTERS"
DEFINE = f"-D{SAVE_REGISTERS}"
