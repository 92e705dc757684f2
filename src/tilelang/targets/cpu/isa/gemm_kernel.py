"""The C++ text of the matrix micro-kernel and of operand packing; selected by `isa.gemm` beside it.

`KERNEL` is the driver for any element type; steps and loads adapt it to dtypes; `ROUNDED` is for results narrower than
their accumulator. Invariant: every size and stride is a template argument, so that addresses are constant and a block
of C stays in registers.

C is divided into column panels of a few vectors, and each panel into row blocks that fit the vector registers. A block
iterates over k: it loads one row of the panel of B, and multiplies it by one broadcast element of A per row of C.
Operands whose layout the micro-kernel supports are read in place; others are first converted, interleaved along k or
transposed into scratch memory, one panel of B at a time.
"""

from __future__ import annotations

from tilelang.isa.intrinsic import Helper

VECTORS = Helper(
    "vectors",
    """\
#if defined(__AVX512F__)
#define TL_VECTOR_BYTES 64
#define TL_VECTOR_REGISTERS 32
#elif defined(__AVX__)
#define TL_VECTOR_BYTES 32
#define TL_VECTOR_REGISTERS 16
#elif defined(__aarch64__)
#define TL_VECTOR_BYTES 16
#define TL_VECTOR_REGISTERS 32
#else
#define TL_VECTOR_BYTES 16
#define TL_VECTOR_REGISTERS 16
#endif
#if defined(__clang__)
#define TL_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TL_UNROLL _Pragma("GCC unroll 64")
#endif
#define TL_INLINE static inline __attribute__((always_inline))
namespace tl {
template <class T> struct simd {
    static constexpr int lanes = TL_VECTOR_BYTES / (int)sizeof(T);
    typedef T vec __attribute__((vector_size(TL_VECTOR_BYTES)));
    typedef T loose __attribute__((vector_size(TL_VECTOR_BYTES), aligned(1), may_alias));
};
template <class A, class B> struct same { static constexpr bool value = false; };
template <class A> struct same<A, A> { static constexpr bool value = true; };
}  // namespace tl
""",
    headers=("<cstdint>",),
)

_BLOCKS = Helper(
    "gemm_blocks",
    """\
namespace tl {
// c[R rows][V vectors] = (clear ? 0 : c) + bias + a[R][k] * b[k][V vectors]; strides are in bytes
template <class Op, int R, int V, int64_t AI, int64_t AP, int64_t BP, int64_t CI>
TL_INLINE void gemm_block(const char* a, const char* b, char* c, const typename Op::out* bias, int k, bool clear) {
    typedef simd<typename Op::in> in;
    typedef simd<typename Op::out> out;
    typename out::vec acc[R][V];
    TL_UNROLL for (int i = 0; i < R; ++i) TL_UNROLL for (int j = 0; j < V; ++j) acc[i][j] = typename out::vec{};
    if (!clear) {
        TL_UNROLL for (int i = 0; i < R; ++i) TL_UNROLL for (int j = 0; j < V; ++j)
            acc[i][j] = *(const typename out::loose*)(c + i * CI + j * TL_VECTOR_BYTES);
    }
    if constexpr (Op::biased) {
        TL_UNROLL for (int i = 0; i < R; ++i) TL_UNROLL for (int j = 0; j < V; ++j)
            acc[i][j] += *(const typename out::loose*)(bias + j * out::lanes);
    }
    for (int p = 0; p < k; ++p, a += AP, b += BP) {
        typename in::vec row[V];
        TL_UNROLL for (int j = 0; j < V; ++j) row[j] = *(const typename in::loose*)(b + j * TL_VECTOR_BYTES);
        TL_UNROLL for (int i = 0; i < R; ++i) {
            typename Op::in x;
            __builtin_memcpy(&x, a + i * AI, sizeof x);
            TL_UNROLL for (int j = 0; j < V; ++j) acc[i][j] = Op::step(acc[i][j], x, row[j]);
        }
    }
    TL_UNROLL for (int i = 0; i < R; ++i) TL_UNROLL for (int j = 0; j < V; ++j)
        *(typename out::loose*)(c + i * CI + j * TL_VECTOR_BYTES) = acc[i][j];
}

// The same for M rows, cut into blocks of nearly equal height that leave registers for a row of B.
template <class Op, int M, int V, int64_t AI, int64_t AP, int64_t BP, int64_t CI>
static void gemm_panel(const char* a, const char* b, char* c, const typename Op::out* bias, int k, bool clear) {
    constexpr int fit = (TL_VECTOR_REGISTERS - 1 - V) / V, most = fit < 14 ? fit : 14;
    constexpr int blocks = (M + most - 1) / most, rows = M / blocks, taller = M % blocks;
    if constexpr (taller > 0) {
        for (int i = 0; i < taller; ++i, a += (rows + 1) * AI, c += (rows + 1) * CI)
            gemm_block<Op, rows + 1, V, AI, AP, BP, CI>(a, b, c, bias, k, clear);
    }
    for (int i = taller; i < blocks; ++i, a += rows * AI, c += rows * CI)
        gemm_block<Op, rows, V, AI, AP, BP, CI>(a, b, c, bias, k, clear);
}
}  // namespace tl
""",
    needs=(VECTORS,),
)

_PACKING = Helper(
    "gemm_packing",
    """\
namespace tl {
// Transposes a square of lanes: log2(lanes) rounds of perfect shuffles. `stride` and `pitch` lie between lines of both.
template <class T>
TL_INLINE void transpose_square(const T* from, int64_t stride, T* to, int64_t pitch, int rows) {
    constexpr int L = simd<T>::lanes;
#if defined(__clang__)
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < L; ++j) to[i * pitch + j] = from[j * stride + i];
#else
    typename simd<T>::vec x[L], y[L];
    decltype(x[0] == x[0]) low, high;
    TL_UNROLL for (int i = 0; i < L; ++i) {
        low[i] = i / 2 + i % 2 * L;
        high[i] = i / 2 + i % 2 * L + L / 2;
        x[i] = *(const typename simd<T>::loose*)(from + i * stride);
    }
    TL_UNROLL for (int round = 1; round < L; round *= 2) {
        TL_UNROLL for (int i = 0; i < L / 2; ++i) {
            y[2 * i] = __builtin_shuffle(x[i], x[i + L / 2], low);
            y[2 * i + 1] = __builtin_shuffle(x[i], x[i + L / 2], high);
        }
        TL_UNROLL for (int i = 0; i < L; ++i) x[i] = y[i];
    }
    TL_UNROLL for (int i = 0; i < L; ++i)
        if (i < rows) *(typename simd<T>::loose*)(to + i * pitch) = x[i];
#endif
}

// Elements of `group` values of k each, along lines of `lines` elements: to[p][i] from value (p * group, i).
template <class Load, int lines, int pitch, int64_t stride>
static void pack_along(const typename Load::memory* from, typename Load::in* to, int k) {
    constexpr int G = Load::group;
    for (int p = 0; p < k / G; ++p, from += G * stride, to += pitch) {
        for (int i = 0; i < lines; ++i) to[i] = Load::get(from + i, stride, G);
        for (int i = lines; i < pitch; ++i) to[i] = 0;
    }
    if (k % G) {
        for (int i = 0; i < lines; ++i) to[i] = Load::get(from + i, stride, k % G);
        for (int i = lines; i < pitch; ++i) to[i] = 0;
    }
}

// One line of elements whose values of k are neighbors.
template <class Load> TL_INLINE void pack_line(const typename Load::memory* from, typename Load::in* to, int k) {
    constexpr int G = Load::group;
    for (int p = 0; p < k / G; ++p) to[p] = Load::get(from + p * G, 1, G);
    if (k % G) to[k / G] = Load::get(from + k / G * G, 1, k % G);
}

// to[p][i] from value (i, p * group): square by square.
template <class Load, int lines, int pitch, int64_t stride>
static void pack_across(const typename Load::memory* from, typename Load::in* to, int k) {
    constexpr int G = Load::group, L = simd<typename Load::in>::lanes;
    alignas(64) typename Load::in square[L * L] = {};
    for (int i = 0; i < pitch; i += L)
        for (int p = 0; p * G < k; p += L) {
            const int here = lines - i < L ? lines - i : L, left = k - p * G;
            const typename Load::memory* corner = from + i * stride + p * G;
            if constexpr (Load::plain && G == 1) {
                if (here == L && left >= L) {
                    transpose_square(corner, stride, to + (int64_t)p * pitch + i, pitch, L);
                    continue;
                }
            }
            if (left >= L * G) {
                for (int r = 0; r < here; ++r)
                    for (int e = 0; e < L; ++e) square[r * L + e] = Load::get(corner + r * stride + e * G, 1, G);
            } else {
                for (int r = 0; r < here; ++r) pack_line<Load>(corner + r * stride, square + r * L, left);
            }
            for (int r = here; r < L; ++r)
                for (int e = 0; e < L; ++e) square[r * L + e] = 0;
            const int rows = left >= L * G ? L : (left + G - 1) / G;
            transpose_square(square, (int64_t)L, to + (int64_t)p * pitch + i, pitch, rows);
        }
}
}  // namespace tl
""",
    needs=(VECTORS,),
)

KERNEL = Helper(
    "gemm",
    """\
namespace tl {
// One panel of V vectors of which `columns` columns exist; b and c point at its first column.
template <class Op, class LoadB, int M, int V, int columns, int chunk, int64_t AI, int64_t AP, int64_t ldb,
          int64_t ldc, bool TB>
static void gemm_columns(const char* a, const typename LoadB::memory* b, typename Op::out* c, int k, bool clear) {
    typedef typename Op::in in;
    typedef typename Op::out out;
    constexpr int G = Op::group, W = V * simd<out>::lanes, elements = (chunk + G - 1) / G;
    const int steps = (k + G - 1) / G;
    alignas(64) out bias[Op::biased ? W : 1];
    if constexpr (LoadB::plain && G == 1 && !TB && columns == W) {
        gemm_panel<Op, M, V, AI, AP, ldb * (int64_t)sizeof(in), ldc * (int64_t)sizeof(out)>(
            a, (const char*)b, (char*)c, bias, k, clear);
    } else {
        alignas(64) in panel[elements * W];
        if constexpr (TB) pack_across<LoadB, columns, W, ldb>(b, panel, k);
        else pack_along<LoadB, columns, W, ldb>(b, panel, k);
        if constexpr (Op::biased) Op::template sum<W>(panel, bias, steps);
        constexpr int64_t BP = W * (int64_t)sizeof(in);
        if constexpr (columns == W) {
            gemm_panel<Op, M, V, AI, AP, BP, ldc * (int64_t)sizeof(out)>(
                a, (const char*)panel, (char*)c, bias, steps, clear);
        } else {
            alignas(64) out edge[M * W];
            if (!clear)
                for (int i = 0; i < M; ++i)
                    for (int j = 0; j < columns; ++j) edge[i * W + j] = c[i * ldc + j];
            gemm_panel<Op, M, V, AI, AP, BP, BP>(a, (const char*)panel, (char*)edge, bias, steps, clear);
            for (int i = 0; i < M; ++i)
                for (int j = 0; j < columns; ++j) c[i * ldc + j] = edge[i * W + j];
        }
    }
}

// c[M][N] = (clear ? 0 : c) + op(a)[M][K] * op(b)[K][N]; a is [K][M] if TA and b is [N][K] if TB.
template <class Op, class LoadA, class LoadB, int M, int N, int K, int64_t lda, int64_t ldb, int64_t ldc, bool TA,
          bool TB>
static __attribute__((noinline)) void gemm(const typename LoadA::memory* a, const typename LoadB::memory* b,
                                           typename Op::out* c, bool clear) {
    typedef typename Op::in in;
    constexpr int G = Op::group, L = simd<typename Op::out>::lanes, most = TL_VECTOR_REGISTERS >= 32 ? 4 : 2;
    constexpr int V = (N + L - 1) / L < most ? (N + L - 1) / L : most, W = V * L, rest = N % W;
    constexpr bool in_place = LoadA::plain && (G == 1 || (!TA && K % G == 0));
    // k is cut so that packed rows of A stay within 256 KiB
    constexpr int64_t room = (int64_t)(1 << 18) * G / ((int64_t)sizeof(in) * M) / 64 * 64;
    constexpr int limit = in_place || room > 512 ? 512 : room < 64 ? 64 : (int)room, chunk = K < limit ? K : limit;
    constexpr int elements = (chunk + G - 1) / G;
    constexpr int64_t size = sizeof(in), AI = in_place ? (TA ? size : lda * size / G) : TA ? size : elements * size;
    constexpr int64_t AP = in_place ? (TA ? lda * size : size) : TA ? M * size : size;
    alignas(64) in rows[in_place ? 1 : (int64_t)M * elements];
    for (int k0 = 0; k0 < K; k0 += chunk, clear = false) {
        const int k = K - k0 < chunk ? K - k0 : chunk;
        const typename LoadA::memory* from = TA ? a + k0 * lda : a + k0;
        const char* ap = in_place ? (const char*)from : (const char*)rows;
        if constexpr (!in_place && TA) pack_along<LoadA, M, M, lda>(from, rows, k);
        if constexpr (!in_place && !TA)
            for (int i = 0; i < M; ++i) pack_line<LoadA>(from + i * lda, rows + (int64_t)i * elements, k);
        // GCC 12 fails on values that are widened in vector registers and read from there (convert_mode_scalar)
        if constexpr (!in_place) __asm__ volatile("" : : "r"(rows) : "memory");
        const typename LoadB::memory* bp = TB ? b + k0 : b + k0 * ldb;
        for (int j = 0; j + W <= N; j += W)
            gemm_columns<Op, LoadB, M, V, W, chunk, AI, AP, ldb, ldc, TB>(ap, bp + j * (TB ? ldb : 1), c + j, k, clear);
        if constexpr (rest > 0)
            gemm_columns<Op, LoadB, M, (rest + L - 1) / L, rest, chunk, AI, AP, ldb, ldc, TB>(
                ap, bp + (N - rest) * (TB ? ldb : 1), c + (N - rest), k, clear);
    }
}
}  // namespace tl
""",
    needs=(_BLOCKS, _PACKING),
)

ROUNDED = Helper(
    "gemm_rounded",
    """\
namespace tl {
// The same into a narrow C: accumulated in float, rounded once.
template <class Op, class LoadA, class LoadB, class C, int M, int N, int K, int64_t lda, int64_t ldb, int64_t ldc,
          bool TA, bool TB>
static __attribute__((noinline)) void gemm_rounded(const typename LoadA::memory* a, const typename LoadB::memory* b,
                                                   C* c, bool clear) {
    alignas(64) float wide[M * N];
    if (!clear)
        for (int i = 0; i < M; ++i)
            for (int j = 0; j < N; ++j) wide[i * N + j] = (float)c[i * ldc + j];
    gemm<Op, LoadA, LoadB, M, N, K, lda, ldb, N, TA, TB>(a, b, wide, clear);
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) c[i * ldc + j] = C(wide[i * N + j]);
}
}  // namespace tl
""",
    needs=(KERNEL,),
)

SINGLE = Helper(
    "gemm_single",
    """\
namespace tl {
template <class In, class Out = In> struct multiply_add {
    typedef In in;
    typedef Out out;
    static constexpr int group = 1;
    static constexpr bool biased = false;
    typedef typename simd<In>::vec vec;
    TL_INLINE typename simd<Out>::vec step(typename simd<Out>::vec acc, In a, vec b) {
        return (typename simd<Out>::vec)((vec)acc + a * b);
    }
};
// A value of memory as an element of type In, first rounded to Rounded.
template <class Memory, class In, class Rounded = Memory> struct load_single {
    typedef Memory memory;
    typedef In in;
    static constexpr int group = 1;
    static constexpr bool plain = same<Memory, In>::value && same<Memory, Rounded>::value;
    TL_INLINE In get(const Memory* from, int64_t, int) { return (In)(Rounded)*from; }
};
}  // namespace tl
""",
    needs=(VECTORS,),
)

# vdpbf16ps: x86 ISA, AVX512_BF16; two products per lane, rounded to nearest even, subnormals count as zero
PAIRS = Helper(
    "gemm_pairs",
    """\
namespace tl {
#if defined(__AVX512BF16__)
struct multiply_add_pairs {
    typedef uint32_t in;
    typedef float out;
    static constexpr int group = 2;
    static constexpr bool biased = false;
    TL_INLINE simd<float>::vec step(simd<float>::vec acc, uint32_t a, simd<uint32_t>::vec b) {
        const simd<uint32_t>::vec x = simd<uint32_t>::vec{} + a;
        asm("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(x), "v"(b));
        return acc;
    }
};
template <class Memory> struct load_pair {
    typedef Memory memory;
    typedef uint32_t in;
    static constexpr int group = 2;
    static constexpr bool plain = same<Memory, bfloat16>::value;
    TL_INLINE uint32_t get(const Memory* from, int64_t step, int count) {
        if (plain && step == 1 && count == 2) {
            uint32_t both;
            __builtin_memcpy(&both, from, 4);
            return both;
        }
        const uint32_t low = bfloat16(from[0]).bits;
        return count > 1 ? low | (uint32_t)bfloat16(from[step]).bits << 16 : low;
    }
};
#else
typedef multiply_add<float> multiply_add_pairs;
template <class Memory> using load_pair = load_single<Memory, float, bfloat16>;
#endif
}  // namespace tl
""",
    needs=(SINGLE,),
)

# vpdpbusd: x86 ISA, AVX512_VNNI; four products of an unsigned and a signed byte per lane. Where both operands have
# the same sign, A is moved by 128 into the other kind, and the sums over columns of B make up for it.
QUADS = Helper(
    "gemm_quads",
    """\
namespace tl {
#if defined(__AVX512VNNI__)
template <bool a_signed, bool b_signed> struct multiply_add_quads {
    typedef uint32_t in;
    typedef int32_t out;
    static constexpr int group = 4;
    static constexpr bool biased = a_signed == b_signed;
    typedef simd<int32_t>::vec vec;
    TL_INLINE vec step(vec acc, uint32_t a, simd<uint32_t>::vec b) {
        const simd<uint32_t>::vec x = simd<uint32_t>::vec{} + a;
        if constexpr (b_signed) asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(x), "v"(b));
        else asm("vpdpbusd %1, %2, %0" : "+v"(acc) : "v"(x), "v"(b));
        return acc;
    }
    template <int W> static void sum(const uint32_t* panel, int32_t* bias, int steps) {
        for (int j = 0; j < W; j += simd<int32_t>::lanes) {
            vec total = {};
            for (int p = 0; p < steps; ++p)
                total = step(total, 0x80808080u, *(const simd<uint32_t>::loose*)(panel + p * W + j));
            *(simd<int32_t>::loose*)(bias + j) = -total;
        }
    }
};
template <class Memory, uint32_t moved> struct load_quad {
    typedef Memory memory;
    typedef uint32_t in;
    static constexpr int group = 4;
    static constexpr bool plain = moved == 0;
    TL_INLINE uint32_t get(const Memory* from, int64_t step, int count) {
        uint32_t bytes = 0;
        if (step == 1 && count == 4) {
            __builtin_memcpy(&bytes, from, 4);
            return bytes ^ moved;
        }
        TL_UNROLL for (int t = 0; t < 4; ++t) if (t < count) bytes |= (uint32_t)(uint8_t)from[t * step] << (8 * t);
        return bytes ^ moved;
    }
};
#else
template <bool, bool> using multiply_add_quads = multiply_add<uint32_t, int32_t>;
template <class Memory, uint32_t> using load_quad = load_single<Memory, uint32_t>;
#endif
}  // namespace tl
""",
    needs=(SINGLE,),
)
