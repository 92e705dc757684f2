"""`JITKernel`: a compiled kernel to call, to read and to measure.

Takes a `PrimFunc` with compile options; gives something callable with arrays of any framework. Invariant: a call that
raises `ArgumentError` has not run the kernel and has not touched any argument.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilelang.dtypes import unknown_name
from tilelang.errors import NOWHERE, DeviceAssertError, OptionError, ResourceError, TileLangError, user_facing
from tilelang.ir.func import Param, PrimFunc, ScalarParam, TensorParam
from tilelang.jit.program import Program, check, compile_program, generate_source, snapshots
from tilelang.options import CompileOptions
from tilelang.profile.inputs import TensorSupplyType
from tilelang.profile.profiler import Profiler
from tilelang.runtime.arguments import Bound, bind, order_keywords
from tilelang.runtime.arrays import ArrayView
from tilelang.runtime.fast_call import call_text, make_fast_call
from tilelang.runtime.library import FLOAT, INTEGER, POINTER
from tilelang.runtime.parameters import OutIdx, Signature
from tilelang.sim.tile_interp import run_reference
from tilelang.target import TargetLike, parse_execution_backend, parse_target


class JITKernel:
    """A kernel that is ready to run.

    Args:
        func: The kernel, as `@T.prim_func` made it.
        out_idx: The parameters that a call allocates and returns: an index, a negative one, or several.
        target: What to compile for; "auto" takes the best target present.
        execution_backend: "cc" compiles with the C++ compiler, "reference" runs the reference interpreter.
        pass_configs: Switches by `PassConfigKey` or its text.
        compile_flags: Appended to the compiler's command line.
        verbose: Print the compiler's command line and log.

    Attributes:
        prim_func: The kernel as it was given.
        target: What it was compiled for.
        execution_backend: How it runs.
        options: The compile options.
        signature: What a call must bring.

    Raises:
        TileLangError: Any of the package's errors that compiling can meet.
    """

    @user_facing
    def __init__(
        self,
        func: PrimFunc,
        out_idx: OutIdx = None,
        target: TargetLike = "auto",
        execution_backend: str | None = "auto",
        pass_configs: Mapping[str, object] | None = None,
        compile_flags: str | Sequence[str] | None = None,
        verbose: bool = False,
    ) -> None:
        if not isinstance(func, PrimFunc):
            raise OptionError(
                f"compile: expected a kernel, got {type(func).__name__}",
                hint="pass a function marked @T.prim_func; call the function that returns it first",
            )
        self.prim_func = func
        self.target = parse_target(target)
        self.execution_backend = parse_execution_backend(execution_backend)
        self.options = CompileOptions.from_user(pass_configs, compile_flags, verbose=verbose)
        self.signature = Signature.of(func, out_idx)
        self._program: Program | None = None
        if self.execution_backend == "cc":
            self._program = compile_program(func, self.target, self.options)
        else:
            check(func, self.target, self.options)  # both ways of running refuse the same programs
        self._call, self._knows_torch = self._make_call()

    @property
    def out_idx(self) -> list[int]:
        """The parameters that a call allocates and returns."""
        return list(self.signature.outputs)

    @property
    def params(self) -> list[Param]:
        """The parameters in order; each has `name`, `dtype` and, for tensors, `shape`."""
        return list(self.prim_func.params)

    def __repr__(self) -> str:
        return f"JITKernel({self.prim_func.name}, target={str(self.target)!r})"

    # -- calling --------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Runs the kernel on the inputs, or on all parameters; returns the outputs named by `out_idx`.

        Raises:
            ArgumentError: An argument does not fit; nothing has been run.
            DeviceAssertError: An assertion of the kernel failed while it ran.
        """
        try:
            if keywords:
                args = order_keywords(self.signature, args, keywords)
            return self._call(*args)
        except TileLangError as error:  # what `user_facing` does, without its cost on every call
            raise error.with_traceback(None) from error.__cause__

    def _make_call(self) -> tuple[Callable[..., Any], bool]:
        knows_torch = "torch" in sys.modules
        if self._program is None:
            return lambda *args: self._interpret(args), knows_torch
        kinds = [_c_type(param) for param in self.prim_func.params] + [INTEGER] * len(self.signature.symbols)
        entry = self._program.entry.typed(kinds)

        def long_way(args: Sequence[Any]) -> Any:
            if not self._knows_torch and "torch" in sys.modules:
                self._call, self._knows_torch = self._make_call()
            bound = bind(self.signature, args)
            status = entry(*bound.c_arguments())
            if status:
                self._fail(status)
            return bound.result()

        return make_fast_call(self.signature, entry, long_way, self._fail), knows_torch

    def _interpret(self, args: Sequence[Any]) -> Any:
        bound: Bound = bind(self.signature, args)
        run_reference(self.prim_func, [v.as_numpy() if isinstance(v, ArrayView) else v for v in bound.values])
        return bound.result()

    def _fail(self, status: int) -> None:
        """Raises for the entry's answer that something went wrong."""
        assert self._program is not None
        asserts = self._program.source.asserts
        if 0 < status <= len(asserts):
            message, loc = asserts[status - 1]
            raise DeviceAssertError(message or "assertion failed", loc=loc if loc is not NOWHERE else None)
        raise ResourceError(
            f"{self.prim_func.name}: not enough memory for the tiles of its blocks and its T.alloc_global workspaces",
            loc=self.prim_func.loc,
            hint="allocate smaller tiles, or run fewer threads with TILELANG_NUM_THREADS",
        )

    # -- looking inside -------------------------------------------------------------------------------------
    def get_kernel_source(self) -> str:
        """The generated source of the kernel."""
        if self._program is not None:
            return self._program.source.text
        return generate_source(self.prim_func, self.target, self.options).text

    def get_host_source(self) -> str:
        """The text of the function that checks the arguments of a call at a glance and launches the kernel."""
        return call_text(self.signature)

    def show_ir(self, pass_name: str | None = None) -> str:
        """The program as text: after the named pass, or as it came and after each pass.

        Raises:
            OptionError: No pass has that name.
        """
        shots = snapshots(self.prim_func, self.target, self.options)
        if pass_name is None:
            return "\n".join(f"# {shot.name}\n{shot.text}" for shot in shots)
        for shot in shots:
            if shot.name == pass_name:
                return shot.text
        raise unknown_name("show_ir", pass_name, [shot.name for shot in shots])

    def get_profiler(self, tensor_supply_type: TensorSupplyType = TensorSupplyType.Auto) -> Profiler:
        """A profiler that makes inputs of the kernel's shapes and measures it."""
        return Profiler(self, self.signature, tensor_supply_type)


def _c_type(param: Param) -> type:
    if isinstance(param, TensorParam):
        return POINTER
    assert isinstance(param, ScalarParam)
    return FLOAT if param.dtype.is_float else INTEGER
