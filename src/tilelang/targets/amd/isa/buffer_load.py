"""Loads from global memory by a resource of all threads, an offset of the thread, and one of the instruction.

Gives the text that defines them. Invariant: the offsets of a load are below 2**31 together, so that a resource ends
there, and an offset of 2**31 is beyond it: such a load gives zeros without an access, and needs no branch.

Source: AMD Instruction Set Architecture guides, "Buffer Resource Descriptor"; LLVM, "User Guide for AMDGPU Backend",
`llvm.amdgcn.raw.ptr.buffer.load` and `llvm.amdgcn.make.buffer.rsrc`.
"""

from __future__ import annotations

from tilelang.isa.intrinsic import Helper

MAX_BUFFER_BYTES = 2**31
"""The bytes of a resource."""
BEYOND = f"{MAX_BUFFER_BYTES:#x}u"
"""The first offset beyond it, as text."""

BUFFER_LOAD = Helper(
    "tl_buffer_load",
    """\
// Loads from `from + offset + moved`, of which the first is the same in all lanes, and the last in all waves.
#if __has_builtin(__builtin_amdgcn_raw_buffer_load_b128)
typedef __amdgpu_buffer_rsrc_t tl_resource;
#if defined(__GFX9__)
enum { tl_resource_format = 0x00020000 };
#else
enum { tl_resource_format = 0x31004000 };
#endif
__device__ __forceinline__ tl_resource tl_resource_of(const void* from) {
    return __builtin_amdgcn_make_buffer_rsrc((void*)from, 0, 0x80000000u, tl_resource_format);
}
// For a whole loop: else clang would copy the words that resources share from one to the others in each iteration.
__device__ __forceinline__ tl_resource tl_kept_resource_of(const void* from) {
    int bytes = 0x80000000u, format = tl_resource_format;
    asm volatile("" : "+s"(bytes), "+s"(format));
    return __builtin_amdgcn_make_buffer_rsrc((void*)from, 0, bytes, format);
}
template <typename T> __device__ __forceinline__ T tl_buffer_load(tl_resource from, unsigned offset, unsigned moved) {
    if constexpr (sizeof(T) == 16)
        return __builtin_bit_cast(T, __builtin_amdgcn_raw_buffer_load_b128(from, offset, moved, 0));
    else if constexpr (sizeof(T) == 8)
        return __builtin_bit_cast(T, __builtin_amdgcn_raw_buffer_load_b64(from, offset, moved, 0));
    else if constexpr (sizeof(T) == 4)
        return __builtin_bit_cast(T, __builtin_amdgcn_raw_buffer_load_b32(from, offset, moved, 0));
    else if constexpr (sizeof(T) == 2)
        return __builtin_bit_cast(T, __builtin_amdgcn_raw_buffer_load_b16(from, offset, moved, 0));
    else
        return __builtin_bit_cast(T, __builtin_amdgcn_raw_buffer_load_b8(from, offset, moved, 0));
}
// Zeros where a condition is false, by an offset beyond the resource.
template <typename T>
__device__ __forceinline__ T tl_buffer_load_if(bool inside, tl_resource from, unsigned offset, unsigned moved) {
    return tl_buffer_load<T>(from, inside ? offset : 0x80000000u, moved);
}
#else
typedef const char* tl_resource;
__device__ __forceinline__ tl_resource tl_resource_of(const void* from) { return (tl_resource)from; }
__device__ __forceinline__ tl_resource tl_kept_resource_of(const void* from) { return (tl_resource)from; }
template <typename T> __device__ __forceinline__ T tl_buffer_load(tl_resource from, unsigned offset, unsigned moved) {
    return *(const T*)(from + (offset + moved));
}
template <typename T>
__device__ __forceinline__ T tl_buffer_load_if(bool inside, tl_resource from, unsigned offset, unsigned moved) {
    return inside ? *(const T*)(from + (offset + moved)) : T{};
}
#endif
""",
)
