"""Which headers a user's C++ needs, by the names in it.

Published TileLang compiles every kernel with the headers of CUDA's narrow floats, and nvcc reads some of the host's, so
texts for it name their types and functions without including them. Takes a text; gives the headers. Invariant: a text
that names nothing of a header does not get it, since reading one takes the compiler longer than many a kernel.
"""

from __future__ import annotations

import re

# header: what its names look like. `__host__` begins as functions of halves do.
# Source: CUDA Math API Reference Manual, "Half Precision Intrinsics", "Bfloat16 Precision Intrinsics", "FP8
# Intrinsics", "FP6 Intrinsics" and "FP4 Intrinsics"
_NAMES = {
    "cuda_fp16.h": r"half2?|nv_half2?|__\w*half\w*|__h(?!ost__)[a-z]+\d?\w*|h2?(exp|log|sin|cos|sqrt|rsqrt|rcp|ceil"
    r"|floor|rint|trunc|tanh)(2|10)?(_approx)?|__(low|high|lows|highs)2\w+",
    "cuda_bf16.h": r"__nv_bfloat16\w*|nv_bfloat16\w*|__\w*bfloat16\w*|__\w*2bfloat\w*",
    "cuda_fp8.h": r"__(nv|NV)_\w*(fp8|FP8|e4m3|E4M3|e5m2|E5M2|e8m0|E8M0)\w*|__NV_SATFINITE|__NV_NOSAT",
    "cuda_fp6.h": r"__(nv|NV)_\w*(fp6|FP6|e3m2|E3M2|e2m3|E2M3)\w*",
    "cuda_fp4.h": r"__(nv|NV)_\w*(fp4|FP4|e2m1|E2M1)\w*",
    "sys/types.h": r"uint|ushort|ulong",
}
_TEXTS = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'  # comments and strings, inline assembly among them


def needed_headers(text: str) -> tuple[str, ...]:
    """The headers that a text needs for the names in it; comments and strings do not count."""
    words = set(re.findall(r"[A-Za-z_]\w*", re.sub(_TEXTS, " ", text, flags=re.DOTALL)))
    return tuple(header for header, names in _NAMES.items() if any(re.fullmatch(names, word) for word in words))
