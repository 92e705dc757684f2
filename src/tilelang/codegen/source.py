"""The result of code generation: text, entry point, and the mapping to the user's lines."""

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
            128 bytes that a `TensorMapText` becomes, passed by value), "failure" (a pointer to the int32 that
            receives the number of a failed assertion) or "prints" (a pointer to a `PrintBuffer`).
        index: Which parameter, symbol, workspace or map of the launch, counted from 0.
        ctype: The type in C: "int32_t", "int64_t", "float", "void*", ...
    """

    kind: str
    index: int
    ctype: str


@record
class TensorMapText:
    """The tensor map of a tensor as expressions for the host.

    Attributes:
        tensor: Index of the parameter; those of workspaces follow.
        dtype: The dtype of the elements that the map counts.
        dims: Elements per dimension, innermost first, as Python expressions over the names of symbols and of scalar
            parameters.
        strides: Byte strides of the dimensions, likewise, without the innermost one.
        box: Elements per dimension of the box of one instruction.
        swizzle: Bytes within which the 16-byte chunks of rows are permuted in shared memory: 0 (not), 32, 64 or 128.
        pixels: See `ir.launch.TensorMap`.
        rounds: Likewise.
    """

    tensor: int
    dtype: DType
    dims: tuple[str, ...]
    strides: tuple[str, ...]
    box: tuple[int, ...]
    swizzle: int
    pixels: tuple[tuple[int, int, int], ...] = ()
    rounds: bool = False


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
        cooperative: Whether all blocks must be resident at once, for grid barriers.
        tensor_maps: The tensor maps among its arguments.
        shared_text: All of the dynamic shared memory, where it is computed at each launch: a Python expression over the
            names of symbols and of scalar parameters.
        early: Whether it may start before the preceding launch ends (programmatic dependent launch).
        fragments: The names of fragments with their bytes per thread.
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
        lines: The user's location of lines of `text`, from 1, if known.
        asserts: Message, location and hint of each assertion; the entry returns n + 1 when number n failed.
        flags: Compiler flags this text needs beyond the defaults.
        launches: The kernels in the order in which they run, for device languages.
        workspaces: Bytes of each workspace, as Python expressions over the names of symbols and scalar parameters.
        has_user_code: Whether the text has code of the user: inline PTX, imported source, calls of its functions.
    """

    language: str
    text: str
    entry: str
    lines: Mapping[int, Loc] = field(default_factory=dict)
    asserts: tuple[tuple[str, Loc, str], ...] = ()
    flags: tuple[str, ...] = ()
    launches: tuple[DeviceLaunch, ...] = ()
    workspaces: tuple[str, ...] = ()
    has_user_code: bool = False

    @property
    def key_text(self) -> str:
        """The text without whole-line comments, for cache keys."""
        return "\n".join(line for line in self.text.splitlines() if not line.lstrip().startswith("//"))

    def loc_of(self, number: int) -> Loc | None:
        """The user's location of a line of `text`, or of the nearest one before it that has one."""
        before = [line for line in self.lines if line <= number]
        return self.lines[max(before)] if before else None
