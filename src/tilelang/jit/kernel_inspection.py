"""Inspection of a compiled kernel: generated source, PTX, SASS, exported files, resource usage.

Invariant: nothing here runs the kernel; methods that need compiled code raise if there is none.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.api import public
from tilelang.errors import OptionError
from tilelang.ir.func import PrimFunc
from tilelang.jit.program import generate_source, snapshots
from tilelang.jit.runners import Runner
from tilelang.options import CompileOptions
from tilelang.records import record
from tilelang.runtime.kernel_param import KernelParam
from tilelang.runtime.parameters import Signature
from tilelang.targets.target import Target

if TYPE_CHECKING:
    from tilelang.targets.gpu.runtime.device_code import DeviceCode
    from tilelang.targets.gpu.runtime.resources import Resources

_WHICH = ("kernel", "host", "both")


@record
class ResourceUsage:
    """Resources of one kernel of a GPU program.

    Attributes:
        n_regs: Registers of 32 bits per thread.
        n_spills: Bytes of code that store spilled registers, plus those that load them again.
        n_max_threads: Threads that a block of it may have.
        shared_bytes: Shared memory of a block.
        local_bytes: Local memory of a thread.
    """

    n_regs: int
    n_spills: int
    n_max_threads: int
    shared_bytes: int
    local_bytes: int


@record
class Lowered:
    """The result of `tilelang.lower`.

    Attributes:
        kernel_source: The generated source.
        func: The program.
        target: What it was generated for.
        options: How.
        device_mod: What was made of the source, if it was compiled.
        host_mod: None: there is no module of the host's side.
    """

    kernel_source: str
    func: PrimFunc
    target: Target
    options: CompileOptions
    device_mod: Any = None
    host_mod: None = None

    @property
    def params(self) -> list[KernelParam]:
        """The parameters in order."""
        return [KernelParam.of(param) for param in self.func.params]

    @property
    def ir(self) -> str:
        """The program after the last pass, as text."""
        return snapshots(self.func, self.target, self.options)[-1].text

    def __str__(self) -> str:
        return self.kernel_source


@public
class KernelInspection:
    """The methods of `JITKernel` that inspect the kernel."""

    prim_func: PrimFunc
    target: Target
    execution_backend: str
    options: CompileOptions
    signature: Signature
    _runner: Runner

    @property
    def params(self) -> list[KernelParam]:
        """The parameters in order; each has `name`, `dtype`, `shape` and `is_scalar()`."""
        return [KernelParam.of(param) for param in self.prim_func.params]

    # -- source ---------------------------------------------------------------------------------------------
    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """The generated source of the kernel.

        On a GPU, a kernel with symbolic sizes is compiled for sizes that are multiples of 128 first, and for others
        at the first call that has them; this is the source of the first.

        Args:
            kernel_only: Without the host's part, see `get_host_source`, which follows otherwise.
        """
        if self._runner.program is not None:
            text = self._runner.program.source.text
        else:
            text = generate_source(self.prim_func, self.target, self.options).text
        return text if kernel_only else f"{text}\n{self.get_host_source()}"

    def get_host_source(self) -> str:
        """The checks of a call before it launches the kernel, as comment lines; empty if nothing is compiled."""
        return "" if self._runner.program is None else self.signature.text()

    @property
    def kernel_source(self) -> str:
        """The same as `get_kernel_source()`."""
        return self.get_kernel_source()

    @property
    def host_source(self) -> str:
        """The same as `get_host_source()`."""
        return self.get_host_source()

    @property
    def artifact(self) -> Lowered:
        """The compiled program, as `tilelang.lower` returns it."""
        program = self._runner.program
        built = None if program is None else program.built
        return Lowered(self.get_kernel_source(), self.prim_func, self.target, self.options, built)

    def show_source(self, which: str = "kernel") -> None:
        """Prints a source: "kernel", "host" or "both".

        Raises:
            OptionError: `which` is something else.
        """
        if which not in _WHICH:
            raise OptionError(f"show_source: unknown source {which!r:.40}", hint=f"one of {', '.join(_WHICH)}")
        if which != "host":
            print(self.get_kernel_source())  # noqa: T201  the user asked for it
        if which != "kernel":
            print(self.get_host_source())  # noqa: T201  as above

    def print_source_code(self, which: str = "kernel", file: str | Path | None = None) -> None:
        """Prints a source as `show_source` does, or writes the kernel's into a file."""
        if file is None:
            self.show_source(which)
        else:
            self.export_sources(kernel_path=file)

    def export_sources(self, kernel_path: str | Path | None = None, host_path: str | Path | None = None) -> None:
        """Writes sources into files, whose folders are made.

        Args:
            kernel_path: Where the kernel's goes.
            host_path: Where the host's goes.

        Raises:
            OptionError: Neither is given.
        """
        if kernel_path is None and host_path is None:
            raise OptionError("export_sources: nothing to write", hint="pass kernel_path= or host_path=")
        if kernel_path is not None:
            _write(kernel_path, self.get_kernel_source())
        if host_path is not None:
            _write(host_path, self.get_host_source())

    # -- machine code ---------------------------------------------------------------------------------------
    def get_ptx(self) -> str:
        """The kernel in PTX.

        Raises:
            OptionError: The kernel is not compiled for a GPU.
        """
        return self._device_code("get_ptx").ptx()

    def get_sass(self) -> str:
        """The assembly of the machine code; for NVIDIA's GPUs that needs cuobjdump or nvdisasm.

        Raises:
            OptionError: The kernel is not compiled for a GPU.
            ToolchainError: There is no disassembler.
        """
        return self._device_code("get_sass").assembly()

    def get_cubin(self) -> bytes:
        """The machine code.

        Raises:
            OptionError: The kernel is not compiled for a GPU.
        """
        return self._device_code("get_cubin").binary

    def show_ptx(self) -> None:
        """Prints what `get_ptx` gives."""
        print(self.get_ptx())  # noqa: T201  the user asked for it

    def export_ptx(self, path: str | Path) -> None:
        """Writes what `get_ptx` gives into a file, whose folder is made."""
        _write(path, self.get_ptx())

    def show_sass(self) -> None:
        """Prints what `get_sass` gives."""
        print(self.get_sass())  # noqa: T201  the user asked for it

    def export_sass(self, path: str | Path) -> None:
        """Writes what `get_sass` gives into a file, whose folder is made."""
        _write(path, self.get_sass())

    def export_library(self, kernel_file: str | Path) -> None:
        """Writes the compiled code into a file, whose folder is made: of a GPU, or a shared object for the CPU.

        Raises:
            OptionError: Nothing was compiled: the kernel is interpreted or simulated.
        """
        from tilelang.targets.cpu.runtime.library import Entry  # noqa: PLC0415  few export

        program = self._runner.program
        if program is None:
            raise OptionError(
                f"export_library: execution_backend {self.execution_backend!r} compiles nothing",
                hint="leave execution_backend out",
            )
        if isinstance(program.built, Entry):
            from tilelang.targets.cpu.runtime.host_compiler import shared_object  # noqa: PLC0415  as above

            _write(kernel_file, shared_object(program.source, self.options))
        else:
            _write(kernel_file, program.built.binary)

    # -- figures --------------------------------------------------------------------------------------------
    @property
    def identity(self) -> str:
        """A text that is equal for kernels with the same code and grid."""
        program, code = self._runner.program, self._runner.code
        if program is None:
            return f"{id(self)}"
        what = self.options.key + program.source.text if code is None else hashlib.sha256(code.binary).hexdigest()
        return repr((what, program.source.launches, program.source.workspaces, self.signature.outputs))

    @property
    def resources(self) -> Resources:
        """Registers, shared memory and spilled bytes: the most that any of the program's kernels uses."""
        from tilelang.targets.gpu.runtime.resources import Resources  # noqa: PLC0415  few ask

        found = self.kernel_resources.values()
        return Resources(
            max((r.registers for r in found), default=0),
            max((r.shared_bytes for r in found), default=0),
            max((r.spill_bytes for r in found), default=0),
            max((r.local_bytes for r in found), default=0),
            any(r.serialized for r in found),
            accumulators=max((r.accumulators for r in found), default=0),
        )

    @property
    def kernel_resources(self) -> Mapping[str, Resources]:
        """The same for each kernel by its name in the source."""
        return self._device_code("resources").resources

    @property
    def resource_usage(self) -> dict[str, ResourceUsage]:
        """The resources of each kernel by its name, in the order of launches; empty unless it is compiled for a GPU."""
        code = self._runner.code
        if code is None:
            return {}
        usage = {}
        for launch in code.source.launches:
            used = code.resources.get(launch.name)
            if used is not None:
                usage[launch.name] = ResourceUsage(
                    used.registers, used.spill_bytes, math.prod(launch.threads), used.shared_bytes, used.local_bytes
                )
        return usage

    @property
    def n_regs(self) -> int | None:
        """Registers per thread of the first kernel; None unless it is compiled for a GPU."""
        used = self._first_usage()
        return None if used is None else used.n_regs

    @property
    def n_spills(self) -> int | None:
        """Bytes of code of the first kernel that store and load spilled registers; None as above."""
        used = self._first_usage()
        return None if used is None else used.n_spills

    @property
    def n_max_threads(self) -> int | None:
        """Threads that a block of the first kernel may have; None as above."""
        used = self._first_usage()
        return None if used is None else used.n_max_threads

    def _first_usage(self) -> ResourceUsage | None:
        return next(iter(self.resource_usage.values()), None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of the assembler, such as of matrix instructions that it had to serialize."""
        return self._device_code("warnings").warnings

    def _device_code(self, name: str) -> DeviceCode:
        if self._runner.code is not None:
            return self._runner.code
        raise OptionError(
            f"{name}: the kernel is not compiled for a GPU: target {str(self.target)!r}, execution_backend "
            f"{self.execution_backend!r}",
            hint="compile with target={'kind': 'cuda', 'arch': 'sm_90a'}",
        )


def _write(path: str | Path, content: str | bytes) -> None:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
