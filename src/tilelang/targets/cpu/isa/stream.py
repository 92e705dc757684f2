"""Streaming stores, for results larger than any cache.

An ordinary store first reads its cache line; a streaming store of a whole line does not, which saves a third of the
memory traffic of a kernel that reads as much as it writes.
"""

from __future__ import annotations

from tilelang.ir.callee import Routine
from tilelang.isa.intrinsic import Helper

LINE_BYTES = 64

_STREAM = Helper(
    "tl_stream_line",
    """\
#if defined(__SSE2__)
#include <immintrin.h>
#endif
// Writes 64 bytes past the caches where the machine can.
static inline void tl_stream_line(void* to, const void* from) {
#if defined(__AVX512F__)
    if (((uintptr_t)to & 63) == 0) {
        _mm512_stream_si512((__m512i*)to, _mm512_load_si512(from));
        return;
    }
#endif
#if defined(__SSE2__)
    if (((uintptr_t)to & 15) == 0) {
        for (int n = 0; n < 4; ++n) _mm_stream_si128((__m128i*)to + n, _mm_load_si128((const __m128i*)from + n));
        return;
    }
#endif
    __builtin_memcpy(to, from, 64);
}
""",
    headers=("<cstdint>",),
)

# Called with the address of a line's worth of elements in global memory and that of an aligned line on chip. Streaming
# stores become visible to other threads with the locked instruction of the barrier that ends the launch.
# Source: Intel SDM volume 1, 10.4.6.2 and volume 3A, 8.2.5
STREAM_LINE = Routine("stream_line", {"cpp": "tl_stream_line({0}, {1})"}, {"cpp": _STREAM})
