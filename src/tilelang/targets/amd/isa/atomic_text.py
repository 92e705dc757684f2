"""The HIP text of atomic operations: built-in functions of clang, or a loop around compare-and-swap.

Takes an atomic statement, gives its text. Invariant: elements have the types of `hip_type`, operands and values the
value types; a vector is words that hold its bits. The compiler implements memory orders and scopes, and chooses an
instruction or a loop for each architecture.

Source: LLVM, "Clang Language Extensions", `__hip_atomic`; "User Guide for AMDGPU Backend", "Memory Model".
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.dtypes import DType, lane_dtype
from tilelang.errors import NoLowering
from tilelang.ir.buffer import Scope
from tilelang.ir.stmt import Atomic, MemoryOrder, MemoryScope
from tilelang.isa.intrinsic import Helper, Template, needed
from tilelang.targets.amd.isa.arithmetic import FUNCTION, HELPERS
from tilelang.targets.amd.isa.types import BITS, hip_type
from tilelang.targets.amd.machines import Feature
from tilelang.targets.gpu.isa.c_types import WORD_TEXT
from tilelang.targets.machine import Machine

_SCOPES = {"block": "WORKGROUP", "gpu": "AGENT", "system": "SYSTEM"}
_NATIVE_FETCHES = {  # operations of `__hip_atomic_fetch`, with the dtypes for which they mean the same
    "add": ("int32", "uint32", "int64", "uint64", "float32", "float64"),
    **dict.fromkeys(("min", "max", "and", "or", "xor"), ("int32", "uint32", "int64", "uint64")),
}
_OPERATORS = {"add": "+", "and": "&", "or": "|", "xor": "^"}

_WORD = Helper("tl_word", WORD_TEXT)
_UPDATE = Helper(
    "tl_atomic_update",
    f"""\
// Replaces an element by change(element), indivisibly; gives the element as it was.
template <int ORDER, int FAILED, int SCOPE, typename T, typename F>
{FUNCTION} T tl_atomic_update(T* element, F change) {{
    typedef typename tl_word<sizeof(T)>::type word;
    word seen = __hip_atomic_load((word*)element, __ATOMIC_RELAXED, SCOPE);
    while (true) {{
        const word next = tl_bits<word>(change(tl_bits<T>(seen)));
        if (__hip_atomic_compare_exchange_strong((word*)element, &seen, next, ORDER, FAILED, SCOPE))
            return tl_bits<T>(seen);
    }}
}}
""",
    needs=(_WORD, BITS),
)
_CAS = Helper(
    "tl_atomic_cas",
    f"""\
// Stores `next` where memory holds the bits of `seen`; gives what it held.
template <int ORDER, int FAILED, int SCOPE, typename T> {FUNCTION} T tl_atomic_cas(T* element, T seen, T next) {{
    typedef typename tl_word<sizeof(T)>::type word;
    word found = tl_bits<word>(seen);
    __hip_atomic_compare_exchange_strong((word*)element, &found, tl_bits<word>(next), ORDER, FAILED, SCOPE);
    return tl_bits<T>(found);
}}
""",
    needs=(_WORD, BITS),
)


def atomic_text(stmt: Atomic) -> Template:
    """The text of an atomic statement, which takes the element's address and the operands.

    Raises:
        NoLowering: There is no such operation on the dtype.
    """
    # accesses to LDS are ordered for the block only, since other blocks do not see them
    reached = stmt.buffer.scope is Scope.GLOBAL or stmt.order is MemoryOrder.RELAXED
    scope = stmt.scope if reached or stmt.scope is not MemoryScope.GPU else MemoryScope.BLOCK
    order, where = f"__ATOMIC_{stmt.order.value.upper()}", f"__HIP_MEMORY_SCOPE_{_SCOPES[scope.value]}"
    if stmt.value is not None and stmt.value.dtype.lanes > stmt.buffer.dtype.lanes:
        return _vector_text(stmt.value.dtype, order, where)
    return _element_text(stmt.op.value, stmt.buffer.dtype, order, where)


def _element_text(op: str, dtype: DType, order: str, scope: str) -> Template:
    """The text of an operation on one element."""
    own = hip_type(dtype)
    if op in ("and", "or", "xor") and not dtype.is_int:
        raise NoLowering(f"atomic {op}: needs integers, got {dtype!s}")
    if str(dtype) in _NATIVE_FETCHES.get(op, ()):
        return Template(f"__hip_atomic_fetch_{op}({{0}}, ({own.name})({{1}}), {order}, {scope})", own.helper)
    pointer, word = f"(tl_word<sizeof({own.name})>::type*)({{0}})", f"tl_word<sizeof({own.name})>::type"
    helper = _merged(own.helper, _WORD, BITS)
    if op in ("load", "store", "exchange"):
        # of acq_rel, a load only acquires and a store only releases
        half = {"load": "ACQUIRE", "store": "RELEASE"}.get(op)
        order = f"__ATOMIC_{half}" if half and order == "__ATOMIC_ACQ_REL" else order
        order = "__ATOMIC_RELAXED" if half and order == f"__ATOMIC_{_OPPOSITE[half]}" else order
        if op == "store":
            value = f"tl_bits<{word}>({own.name}({{1}}))"
            return Template(f"__hip_atomic_store({pointer}, {value}, {order}, {scope})", helper)
        function = f"__hip_atomic_{op}({pointer}, " + (f"tl_bits<{word}>({own.name}({{1}})), " if op != "load" else "")
        return Template(f"({own.value})tl_bits<{own.name}>({function}{order}, {scope}))", helper)
    orders = f"<{order}, {_failure_order(order)}, {scope}>"
    if op == "cas":
        call = f"({own.value})tl_atomic_cas{orders}({{0}}, {own.name}({{1}}), {own.name}({{2}}))"
        return Template(call, _merged(own.helper, _CAS))
    old = f"({own.value})old" if own.is_packed else "old"
    if op in _OPERATORS:
        change, operator = f"{own.name}({old} {_OPERATORS[op]} value)", None
    else:
        change, operator = f"{own.name}(tl_{op}<{own.value}>({old}, value))", HELPERS[f"tl_{op}"]
    name = f"tl_atomic_{op}_{dtype!s}"
    text = f"""\
template <int ORDER, int FAILED, int SCOPE> {FUNCTION} {own.value} {name}({own.name}* element, {own.value} value) {{
    return ({own.value})tl_atomic_update<ORDER, FAILED, SCOPE>(
        element, [=]({own.name} old) {{ return {change}; }});
}}
"""
    helper = Helper(name, text, needs=needed(own.helper, operator, _UPDATE))
    return Template(f"{name}{orders}({{0}}, {{1}})", helper)


_OPPOSITE = {"ACQUIRE": "RELEASE", "RELEASE": "ACQUIRE"}


def _failure_order(order: str) -> str:
    """The memory order of a compare-and-swap that fails, which has no release."""
    return {"__ATOMIC_RELEASE": "__ATOMIC_RELAXED", "__ATOMIC_ACQ_REL": "__ATOMIC_ACQUIRE"}.get(order, order)


def _merged(*helpers: Helper | None) -> Helper:
    """One helper without a text that needs several others."""
    needs = needed(*helpers)
    if len(needs) == 1:
        return needs[0]
    return Helper(" and ".join(helper.name for helper in needs), "", needs=needs)


def vector_lanes(machine: Machine) -> Mapping[str, tuple[int, ...]]:
    """Lanes of vector additions that a machine has an instruction for, by dtype."""
    pairs = {"float16": Feature.ATOMIC_ADD_F16X2, "bfloat16": Feature.ATOMIC_ADD_BF16X2}
    return {dtype: (2,) for dtype, feature in pairs.items() if machine.has(feature)}


# Where pairs are added by one instruction, its builtin, and the type of its operand.
# Source: LLVM, BuiltinsAMDGPU.def, `global_atomic_fadd_v2f16` and `_v2bf16`
_SINCE = "defined(__gfx942__) || defined(__gfx950__) || defined(__GFX12__)"
_PAIRS = {
    "float16": (f"defined(__gfx90a__) || {_SINCE}", "f16", "_Float16"),
    "bfloat16": (_SINCE, "bf16", "short"),
}


def _vector_text(dtype: DType, order: str, scope: str) -> Template:
    """The call that adds a short vector to elements of global memory, in pairs where an instruction does."""
    lane, made = lane_dtype(dtype), hip_type(dtype)
    own, single = hip_type(lane), _element_text("add", lane, order, scope)
    each = f"{single.format('element + i', f'({own.value})from.lane[i]')};"
    body = f"#pragma unroll\n    for (int i = 0; i < {dtype.lanes}; ++i) {each}\n"
    typedef, views = "", ""
    relaxed = (order, scope) == ("__ATOMIC_RELAXED", "__HIP_MEMORY_SCOPE_AGENT")
    if str(lane) in _PAIRS and relaxed:  # the instruction is relaxed, of agent scope
        machines, suffix, kind = _PAIRS[str(lane)]
        typedef = f"    typedef {kind} pair_t __attribute__((ext_vector_type(2)));\n"
        views = f" pair_t pair[{dtype.lanes // 2}];"
        body = f"""\
#if {machines}
#pragma unroll
    for (int i = 0; i < {dtype.lanes // 2}; ++i)
        __builtin_amdgcn_global_atomic_fadd_v2{suffix}(
            (__attribute__((address_space(1))) pair_t*)element + i, from.pair[i]);
#else
{body}#endif
"""
    how = "" if relaxed else f"{order}{scope.removeprefix('__HIP_MEMORY_SCOPE')}".replace("__ATOMIC", "").lower()
    name = f"tl_atomic_add_{dtype!s}{how}"
    text = f"""\
{FUNCTION} void {name}({own.name}* element, {made.name} value) {{
{typedef}    union {{ {made.name} all; {own.name} lane[{dtype.lanes}];{views} }} from;
    from.all = value;
{body}}}
"""
    helper = Helper(name, text, needs=needed(own.helper, made.helper, single.helper))
    return Template(f"{name}({{0}}, {{1}})", helper)
