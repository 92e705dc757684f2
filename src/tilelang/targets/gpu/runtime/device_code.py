"""Machine code for a GPU: what building a program gives, and how it is kept in the compile cache.

Takes what a vendor's compiler makes of a `Source`, gives `DeviceCode`. Invariant: code with the same key is built once
per cache folder; nothing here needs a GPU or a driver.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from tilelang.codegen.source import Source
from tilelang.environment import is_cache_enabled
from tilelang.errors import OptionError
from tilelang.options import CompileOptions
from tilelang.records import record
from tilelang.runtime import cache
from tilelang.targets.gpu.runtime.resources import Resources


@record
class DeviceCode:
    """Machine code of a program's kernels.

    Attributes:
        source: What was compiled.
        arch: The machine that it was compiled for.
        compiler: The execution backend that names the compiler.
        options: How.
        binary: The machine code, as the driver loads it.
        resources: What each kernel uses, by its name.
        warnings: What the assembler warned of, such as matrix instructions that it had to serialize.
    """

    source: Source
    arch: str
    compiler: str
    options: CompileOptions
    binary: bytes
    resources: dict[str, Resources]
    warnings: tuple[str, ...]

    def ptx(self) -> str:
        """The program in the vendor's portable assembly language.

        Raises:
            OptionError: The vendor has none.
        """
        raise OptionError(
            f"get_ptx: code for {self.arch} is not compiled by way of PTX",
            hint="write kernel.get_sass() for its machine code in words",
        )

    def assembly(self) -> str:
        """The assembly of the machine code.

        Raises:
            ToolchainError: What gives it is not installed.
        """
        raise NotImplementedError


@record
class BuiltCode:
    """The output of a compiler: see the attributes of `DeviceCode` with the same names."""

    binary: bytes
    resources: dict[str, Resources]
    warnings: tuple[str, ...] = ()


def built_once(key: Sequence[str], suffix: str, make: Callable[[], BuiltCode]) -> BuiltCode:
    """The output of `make`, from the cache where possible.

    Args:
        key: All that decides it.
        suffix: Of the cache's file.
        make: Compiles.
    """
    if not is_cache_enabled():
        return make()
    name = cache.key_of(_FORMAT, *key)
    kept = cache.lookup(name, suffix)
    if kept is not None:
        return _unpacked(kept)
    built = make()
    cache.store(name, suffix, _packed(built))
    return built


def with_launch_memory(source: Source, resources: dict[str, Resources]) -> dict[str, Resources]:
    """The resources, with the shared memory that each launch adds to what its kernel declares."""
    added = {launch.name: launch.shared_bytes for launch in source.launches}
    return {
        name: used._replace(shared_bytes=used.shared_bytes + added.get(name, 0)) for name, used in resources.items()
    }


_FORMAT = "figures as JSON, serialization and accumulators among them, a line break, the machine code"


def _packed(code: BuiltCode) -> bytes:
    head = json.dumps({"resources": code.resources, "warnings": code.warnings}).encode()  # without line breaks
    return head + b"\n" + code.binary


def _unpacked(data: bytes) -> BuiltCode:
    head, _, binary = data.partition(b"\n")
    said = json.loads(head)
    resources = {name: Resources(*used) for name, used in said["resources"].items()}
    return BuiltCode(binary, resources, tuple(said["warnings"]))
