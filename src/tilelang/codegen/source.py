"""What code generation hands to a compiler: text, its entry point, and the way back to the user's lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tilelang.dtypes import DType
from tilelang.errors import Loc
from tilelang.records import record


@record
class KernelArgument:
    """One argument of a kernel on a device.

    Attributes:
        kind: "tensor" (the data pointer of a parameter), "scalar" (the value of a parameter), "symbol" (the value of a
            symbolic dim or stride), "workspace" (a pointer to memory that the runtime allocates), "tensor_map" (the
            128 bytes that a `TensorMapText` becomes, passed by value) or "failure" (a pointer to the int32 that
            receives the number of a failed assertion).
        index: Which parameter, symbol, workspace or map of the launch, counted from 0.
        ctype: The type in C: "int32_t", "int64_t", "float", "void*", ...
    """

    kind: str
    index: int
    ctype: str


@record
class TensorMapText:
    """How the host describes a tensor to the units that copy boxes of it.

    Attributes:
        tensor: Which parameter, counted from 0.
        dtype: Of the elements that the map counts.
        dims: Elements per dimension, innermost first, as Python expressions over the names of symbols and of scalar
            parameters.
        strides: Bytes from an element to the next one of its dimension, likewise; the innermost dimension has none.
        box: Elements per dimension that one instruction moves.
        swizzle: Bytes within which the 16-byte pieces of rows change places in shared memory: 0 (they do not), 32, 64
            or 128.
        pixels: See `ir.launch.TensorMap`.
    """

    tensor: int
    dtype: DType
    dims: tuple[str, ...]
    strides: tuple[str, ...]
    box: tuple[int, ...]
    swizzle: int
    pixels: tuple[tuple[int, int, int], ...] = ()


@record
class DeviceLaunch:
    """One kernel launch of a device program.

    Attributes:
        name: The kernel's name in the source.
        grid: Extents as Python expressions over the names of symbols and of scalar parameters.
        threads: Threads per block as (x, y, z).
        shared_bytes: Dynamic shared memory of a block, or the constant part of it.
        cluster: Blocks per cluster.
        arguments: In order.
        cooperative: Whether all blocks must run at once, as barriers of the whole grid need.
        tensor_maps: What the launch's arguments of that kind describe.
        shared_text: All of the dynamic shared memory, where it is computed at each launch: a Python expression over the
            names of symbols and of scalar parameters.
        early: Whether it may begin before the launch in front of it has ended; the kernel itself waits for that.
        fragments: The names of fragments, and the bytes of each that a thread holds.
    """

    name: str
    grid: tuple[str, ...]
    threads: tuple[int, int, int]
    shared_bytes: int
    cluster: tuple[int, int, int]
    arguments: tuple[KernelArgument, ...]
    cooperative: bool = False
    tensor_maps: tuple[TensorMapText, ...] = ()
    early: bool = False
    shared_text: str = ""
    fragments: tuple[tuple[str, int], ...] = ()


@record
class Source:
    """Generated source text.

    Attributes:
        language: "cpp" or another `Dialect.language`.
        text: The source.
        entry: Name of the function to call.
        lines: The user's place for lines of `text`, counted from 1, where there is one.
        asserts: Message and place of each assertion; the entry returns n + 1 when number n failed.
        flags: Compiler flags this text needs beyond the defaults.
        launches: The kernels in the order in which they run, for device languages.
        workspaces: Bytes of each workspace, as Python expressions over the names of symbols and scalar parameters.
        foreign: Whether the text holds code of the user's own: inline PTX, imported source, calls of its functions.
    """

    language: str
    text: str
    entry: str
    lines: Mapping[int, Loc] = field(default_factory=dict)
    asserts: tuple[tuple[str, Loc], ...] = ()
    flags: tuple[str, ...] = ()
    launches: tuple[DeviceLaunch, ...] = ()
    workspaces: tuple[str, ...] = ()
    foreign: bool = False

    @property
    def key_text(self) -> str:
        """The text without whole-line comments: what decides the compiled result, for cache keys."""
        return "\n".join(line for line in self.text.splitlines() if not line.lstrip().startswith("//"))
