"""The CUDA text of atomic operations: the compilers' functions, PTX, or a loop around compare-and-swap.

Gives `operation_text` and `vector_text`. Invariant: elements have the types of `cuda_type`, operands and values the
value types; a vector is the words that hold its bits.
"""

from __future__ import annotations

from tilelang.dtypes import DType, lane_dtype
from tilelang.isa.intrinsic import Helper, needed
from tilelang.records import record
from tilelang.targets.gpu.isa.c_types import WORD_TEXT
from tilelang.targets.nvidia.isa.arithmetic import HELPERS
from tilelang.targets.nvidia.isa.types import BITS, INTEGERS, cuda_type

ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
SCOPES = {"block": "cta", "gpu": "gpu", "system": "sys"}  # as PTX names them


@record(slots=True)
class AtomicText:
    """The text of an atomic operation.

    Attributes:
        text: The call.
        helper: Definitions that it needs.
        retries: Whether it is a loop that each lane leaves when it succeeds, on some GPU.
    """

    text: str
    helper: Helper | None = None
    retries: bool = False


def suffix(order: str, scope: str) -> str:
    """Return the suffix of an operation that is not relaxed or not for the GPU."""
    return ("" if order == "relaxed" else f"_{order}") + ("" if scope == "gpu" else f"_{scope}")


def operation_text(op: str, dtype: DType, order: str, scope: str) -> AtomicText:
    """The call of an operation on one element."""
    if op in ("load", "store"):
        return _load_or_store(op, dtype, order, scope)
    words = _read_modify_write(op, dtype, scope)
    return words if order == "relaxed" else _fenced(words, op, dtype, order, scope)


# -- one instruction ----------------------------------------------------------------------------------------------

_FUNCTIONS = {
    "add": "atomicAdd",
    "min": "atomicMin",
    "max": "atomicMax",
    "and": "atomicAnd",
    "or": "atomicOr",
    "xor": "atomicXor",
    "exchange": "atomicExch",
    "cas": "atomicCAS",
}
# Which types the compilers' functions have; signed sums and bits are those of the unsigned type.
# Source: CUDA C++ Programming Guide, "Atomic Functions"
_INT, _UINT, _WIDE, _UWIDE = "int", "unsigned int", "long long", "unsigned long long"
_FUNCTION_TYPES: dict[str, dict[str, str]] = {
    "add": {"int32": _INT, "uint32": _UINT, "int64": _UWIDE, "uint64": _UWIDE, "float32": "float", "float64": "double"},
    "min": {"int32": _INT, "uint32": _UINT, "int64": _WIDE, "uint64": _UWIDE},
    "exchange": {
        "int32": _INT,
        "uint32": _UINT,
        "int64": _UWIDE,
        "uint64": _UWIDE,
        "float32": "float",
        "tfloat32": "float",
    },
    "cas": {"int32": _INT, "uint32": _UINT, "int64": _UWIDE, "uint64": _UWIDE},
}
_FUNCTION_TYPES["max"] = _FUNCTION_TYPES["min"]
for _op in ("and", "or", "xor"):
    _FUNCTION_TYPES[_op] = _FUNCTION_TYPES["cas"]


def _read_modify_write(op: str, dtype: DType, scope: str) -> AtomicText:
    taken = _FUNCTION_TYPES[op].get(str(dtype))
    if taken is None:
        return _cas_loop(op, dtype, scope)
    own = cuda_type(dtype)
    same = {"int32": _INT, "uint32": _UINT, "uint64": _UWIDE}.get(str(dtype), own.name) == taken
    pointer = "{0}" if str(dtype) in ("int32", "uint32") or taken in ("float", "double") else f"({taken}*)({{0}})"
    operands = [f"({taken})({{{number}}})" for number in range(1, 3 if op == "cas" else 2)]
    text = f"{_FUNCTIONS[op]}{suffix('relaxed', scope)}({', '.join([pointer, *operands])})"
    if same and taken in ("float", "double", _INT, _UINT):
        text = text.replace(f"({taken})({{1}})", "{1}").replace(f"({taken})({{2}})", "{2}")
    return AtomicText(text if same else f"({own.name}){text}", own.helper)


# -- loops around compare-and-swap ----------------------------------------------------------------------------------

_WORDS = Helper("tl_word", WORD_TEXT, needs=(INTEGERS,))

_CAS = """\
// Compare and swap: stores `next` where memory holds `seen`; gives what it held.
__device__ __forceinline__ {word} tl_cas_{ptx}({word}* element, {word} seen, {word} next) {{
    {word} found;
    asm volatile("atom.relaxed.{ptx}.cas.b{bits} %0, [%1], %2, %3;"
                 : "={letter}"(found) : "l"(element), "{letter}"(seen), "{letter}"(next) : "memory");
    return found;
}}
"""
_CAS_BYTE = """\
__device__ __forceinline__ uint8_t tl_cas_{ptx}(uint8_t* element, uint8_t seen, uint8_t next) {{
    const uint64_t address = (uint64_t)element;  // the machine swaps the aligned word around a byte
    uint32_t* const word = (uint32_t*)(address & ~(uint64_t)3);
    const uint32_t shift = (uint32_t)(address & 3) * 8, others = ~(255u << shift);
    uint32_t around = *(volatile uint32_t*)word & others;
    while (true) {{
        const uint32_t expected = around | (uint32_t)seen << shift;
        const uint32_t found = tl_cas_{ptx}(word, expected, around | (uint32_t)next << shift);
        if (found == expected || (uint8_t)(found >> shift) != seen) return (uint8_t)(found >> shift);
        around = found & others;
    }}
}}
"""
_UPDATE = """\
// Replaces an element by change(element), indivisibly; gives the element as it was.
template <typename T, typename F> __device__ __forceinline__ T tl_atomic_update_{ptx}(T* element, F change) {{
    typedef typename tl_word<sizeof(T)>::type word;
    word seen = *(volatile word*)element;
    while (true) {{
        const word next = tl_bits<word>(change(tl_bits<T>(seen)));
        const word found = next == seen ? seen : tl_cas_{ptx}((word*)element, seen, next);
        if (found == seen) return tl_bits<T>(seen);
        seen = found;
    }}
}}
"""


def _compare_and_swap(scope: str) -> Helper:
    """Compare-and-swap of every size."""
    ptx = SCOPES[scope]
    sizes = (("uint16_t", 16, "h"), ("uint32_t", 32, "r"), ("uint64_t", 64, "l"))
    texts = [_CAS.format(ptx=ptx, word=word, bits=bits, letter=letter) for word, bits, letter in sizes]
    return Helper(f"tl_cas_{ptx}", "".join([*texts, _CAS_BYTE.format(ptx=ptx)]), needs=(INTEGERS,))


def _update(scope: str) -> Helper:
    ptx = SCOPES[scope]
    return Helper(f"tl_atomic_update_{ptx}", _UPDATE.format(ptx=ptx), needs=(_compare_and_swap(scope), _WORDS, BITS))


_OPERATORS = {"add": "+", "and": "&", "or": "|", "xor": "^"}


def _cas_loop(op: str, dtype: DType, scope: str) -> AtomicText:
    """Return a function of our own, mostly a loop around compare-and-swap, where the compilers have none."""
    own, ptx = cuda_type(dtype), SCOPES[scope]
    name = f"tl_atomic_{op}_{dtype!s}{suffix('relaxed', scope)}"
    old = f"({own.value})old" if own.is_packed else "old"
    needs = [helper for helper in (own.helper, BITS) if helper is not None]
    if op == "cas":
        text = f"""\
__device__ __forceinline__ {own.value} {name}({own.name}* element, {own.value} seen, {own.value} next) {{
    typedef tl_word<sizeof({own.name})>::type word;
    return ({own.value})tl_bits<{own.name}>(
        tl_cas_{ptx}((word*)element, tl_bits<word>({own.name}(seen)), tl_bits<word>({own.name}(next))));
}}
"""
        helper = Helper(name, text, needs=(*needs, _compare_and_swap(scope), _WORDS))
        return AtomicText(f"{name}({{0}}, {{1}}, {{2}})", helper, retries=dtype.storage_bytes == 1)
    if op == "exchange":
        change = f"{own.name}(value)"
    elif op in _OPERATORS:
        change = f"{own.name}({old} {_OPERATORS[op]} value)"
    else:
        change = f"{own.name}(tl_{op}<{own.value}>({old}, value))"
        needs.append(HELPERS[f"tl_{op}"])
    call = f"tl_atomic_update_{ptx}(element, [=]({own.name} old) {{ return {change}; }})"
    body = f"    return {f'({own.value})' if own.is_packed else ''}{call};\n"
    if op == "add" and dtype in ("float16", "bfloat16"):
        body = _half_add(dtype, ptx, body)
    text = f"__device__ __forceinline__ {own.value} {name}({own.name}* element, {own.value} value) {{\n{body}}}\n"
    helper = Helper(name, text, needs=(*needs, _update(scope)))
    return AtomicText(f"{name}({{0}}, {{1}})", helper, retries=op != "add" or dtype != "float16")


def _half_add(dtype: DType, ptx: str, otherwise: str) -> str:
    """The body of an addition that newer GPUs have an instruction for."""
    letter, least = ("f16", 700) if dtype == "float16" else ("bf16", 900)  # PTX ISA, "atom", "Target ISA Notes"
    own = cuda_type(dtype).name
    return f"""\
#if __CUDA_ARCH__ >= {least}
    {own} old;
    asm volatile("atom.relaxed.{ptx}.add.noftz.{letter} %0, [%1], %2;"
                 : "=h"(old.bits) : "l"(element), "h"({own}(value).bits) : "memory");
    return (float)old;
#else
{otherwise}#endif
"""


# -- loads and stores ----------------------------------------------------------------------------------------------


def _load_or_store(op: str, dtype: DType, order: str, scope: str) -> AtomicText:
    own, size, ptx = cuda_type(dtype), dtype.storage_bytes, SCOPES[scope]
    # PTX orders a load only as acquire, a store only as release
    strong = order in ("seq_cst", "acq_rel", "acquire" if op == "load" else "release")
    semantics = ("acquire" if op == "load" else "release") if strong else "relaxed"
    name = f"tl_atomic_{op}_{size}{suffix(order, scope)}"
    word, register = f"uint{8 * size}_t", "uint16_t" if size == 1 else f"uint{8 * size}_t"
    letter = {1: "h", 2: "h", 4: "r", 8: "l"}[size]
    first = f'    asm volatile("fence.sc.{ptx};" ::: "memory");\n' if order == "seq_cst" else ""
    instruction = f"{'ld' if op == 'load' else 'st'}.{semantics}.{ptx}.u{8 * size}"
    if op == "load":
        text = f"""\
__device__ __forceinline__ {word} {name}(const void* element) {{
    {register} value;
{first}    asm volatile("{instruction} %0, [%1];" : "={letter}"(value) : "l"(element) : "memory");
    return ({word})value;
}}
"""
        call = f"({own.value})tl_bits<{own.name}>({name}({{0}}))"
    else:
        text = f"""\
__device__ __forceinline__ void {name}(void* element, {word} value) {{
{first}    asm volatile("{instruction} [%0], %1;" : : "l"(element), "{letter}"(({register})value) : "memory");
}}
"""
        call = f"{name}({{0}}, tl_bits<{word}>({own.name}({{1}})))"
    helper = Helper(name, text, needs=(INTEGERS,))
    needs = needed(helper, BITS, own.helper)
    return AtomicText(call, Helper(f"{name} of {dtype!s}", "", needs=needs))


# -- orders ----------------------------------------------------------------------------------------------------------

_FENCES = {"block": "__threadfence_block()", "gpu": "__threadfence()", "system": "__threadfence_system()"}


def _fences(order: str, scope: str) -> tuple[str, str]:
    """Return the fences before and after a relaxed operation that give it an order; empty where none is needed.

    Source: PTX ISA, "Memory Consistency Model", "Release and Acquire Patterns".
    """
    fence, strongest = _FENCES[scope], f'asm volatile("fence.sc.{SCOPES[scope]};" ::: "memory")'
    before = {"release": fence, "acq_rel": fence, "seq_cst": strongest}.get(order, "")
    return before, fence if order in ("acquire", "acq_rel", "seq_cst") else ""


def _fenced(words: AtomicText, op: str, dtype: DType, order: str, scope: str) -> AtomicText:
    """The relaxed operation between fences."""
    own = cuda_type(dtype)
    name = f"tl_atomic_{op}_{dtype!s}{suffix(order, scope)}"
    operands = ("seen", "next") if op == "cas" else ("value",)
    before, after = _fences(order, scope)
    lines = [
        f"__device__ __forceinline__ {own.value} {name}({own.name}* element, "
        + ", ".join(f"{own.value} {operand}" for operand in operands)
        + ") {",
        f"    {before};" if before else "",
        f"    const {own.value} old = {words.text.format('element', *operands)};",
        f"    {after};" if after else "",
        "    return old;",
        "}",
    ]
    text = "\n".join(line for line in lines if line) + "\n"
    needs = needed(words.helper, own.helper)
    places = ", ".join(f"{{{number}}}" for number in range(1 + len(operands)))
    return AtomicText(f"{name}({places})", Helper(name, text, needs=needs), words.retries)


# -- short vectors -----------------------------------------------------------------------------------------------------


def vector_text(dtype: DType, order: str, scope: str) -> AtomicText:
    """The call that adds a short vector to elements of global memory."""
    lane, vector = lane_dtype(dtype), cuda_type(dtype)
    own, ptx = cuda_type(lane), SCOPES[scope]
    name = (
        f"tl_atomic_add_{dtype!s}"
        + ("" if order == "relaxed" else f"_{order}")
        + ("" if scope == "gpu" else f"_{scope}")
    )
    before, after = _fences(order, scope)
    single = _read_modify_write("add", lane, scope)
    text = f"""\
__device__ __forceinline__ void {name}({own.name}* element, {vector.name} value) {{
{f"    {before};" if before else ""}
{_vector_add(dtype, ptx)}
    union {{ {vector.name} all; {own.name} lane[{dtype.lanes}]; }} from;
    from.all = value;
#pragma unroll
    for (int i = 0; i < {dtype.lanes}; ++i) {single.text.format("(element + i)", f"({own.value})from.lane[i]")};
#endif
{f"    {after};" if after else ""}
}}
"""
    text = "\n".join(line for line in text.split("\n") if line) + "\n"
    needs = needed(single.helper, own.helper, vector.helper)
    return AtomicText(f"{name}({{0}}, {{1}})", Helper(name, text, needs=needs), single.retries)


def _vector_add(dtype: DType, ptx: str) -> str:
    """The instruction, from where there is one up to the `#else`. Source: PTX ISA, "red", "Target ISA Notes"."""
    lane, size = str(lane_dtype(dtype)), dtype.storage_bytes
    kind = {"float32": "f32", "float16": "noftz.f16x2", "bfloat16": "noftz.bf16x2"}[lane]
    least = 700 if dtype == "float16x2" else 900
    letter = "f" if lane == "float32" else "r"
    parts = {4: ("value",), 8: ("value.x", "value.y"), 16: ("value.x", "value.y", "value.z", "value.w")}[size]
    if letter == "f":
        parts = tuple(f"__uint_as_float({part})" for part in parts)
    inputs = ", ".join(f'"{letter}"({part})' for part in parts)
    places = ", ".join(f"%{number}" for number in range(1, len(parts) + 1))
    vector, rounding = f"v{len(parts)}.", ""
    if kind.startswith("noftz."):
        rounding, kind = "noftz.", kind.removeprefix("noftz.")
    operands = f"{{{places}}}" if len(parts) > 1 else places
    instruction = f"red.relaxed.{ptx}.global.add.{rounding}{vector if len(parts) > 1 else ''}{kind}"
    return f"""\
#if __CUDA_ARCH__ >= {least}
    asm volatile("{instruction} [%0], {operands};" : : "l"(element), {inputs} : "memory");
#else"""
