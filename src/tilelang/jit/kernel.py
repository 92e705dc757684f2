"""`JITKernel`: a compiled kernel.

Invariant: a call that raises `ArgumentError` has not run the kernel and has not modified any argument.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilelang.api import public, strip_frames
from tilelang.dtypes import unknown_name
from tilelang.errors import ArgumentError, OptionError, ProgramValueError, TileLangError, UnknownAttribute, nearest
from tilelang.ir.func import PrimFunc
from tilelang.jit.dumps import write_dumps
from tilelang.jit.func_options import options_of
from tilelang.jit.kernel_inspection import KernelInspection
from tilelang.jit.program import snapshots
from tilelang.jit.runners import Runner, make_runner, simulator_runner
from tilelang.jit.subscripts import WithoutSubscript
from tilelang.runtime.parameters import OutIdx, Signature, order_keywords
from tilelang.targets.target import TargetLike, parse_execution_backend, parse_target

if TYPE_CHECKING:
    from tilelang.performance.prediction import Prediction
    from tilelang.profile.inputs import TensorSupplyType
    from tilelang.profile.profiler import Profiler
    from tilelang.sim.counters import Counters


# what people ask a kernel for that it has by another name
_OTHER_METHODS = {
    **dict.fromkeys(("bench", "benchmark", "time", "do_bench"), "write kernel.get_profiler().do_bench()"),
    **dict.fromkeys(("run", "launch", "forward"), "call it: kernel(A, B)"),
    **dict.fromkeys(("source", "code", "get_source"), "write kernel.get_kernel_source()"),
    **dict.fromkeys(("script", "show"), "write kernel.show_ir()"),
    **dict.fromkeys(("ptx", "asm"), "write kernel.get_ptx()"),
}


@public
class JITKernel(KernelInspection, WithoutSubscript):
    """A kernel that is ready to run.

    Args:
        func: The kernel, as `@T.prim_func` made it.
        out_idx: The parameters that a call allocates and returns: an index, a negative one, or several.
        execution_backend: "cc" compiles with the C++ compiler, "nvrtc" and "nvcc" compile for NVIDIA's GPUs, "clang"
            compiles for AMD's, "simulator" runs a GPU's thread-level program on the CPU with checks, "reference" runs
            the reference interpreter; "auto" or None compiles. Names that published TileLang has for ways to call
            compiled code mean that, too.
        target: What to compile for; "auto" or None takes the best target present.
        target_host: Accepted as published; the host is the machine at hand.
        verbose: Print the compiler's command line and log.
        pass_configs: Switches by `PassConfigKey` or its text.
        compile_flags: Appended to the compiler's command line; a text is split as a shell does.

    Attributes:
        prim_func: The kernel as it was given.
        target: What it was compiled for.
        execution_backend: How it runs.
        options: The compile options.
        signature: The requirements on the arguments of a call.
        config: The tunables that a search chose, if the kernel was tuned; `latency` is its time in milliseconds then,
            and `ref_latency` that of the reference.

    Raises:
        TileLangError: Any of the package's errors that compiling can meet.
    """

    config: Mapping[str, Any] | None = None
    latency: float | None = None
    ref_latency: float | None = None

    def __init__(
        self,
        func: PrimFunc,
        out_idx: OutIdx = None,
        execution_backend: str | None = None,
        target: TargetLike = None,
        target_host: object = None,
        verbose: bool | None = None,
        pass_configs: Mapping[str, object] | None = None,
        compile_flags: str | Sequence[str] | None = None,
    ) -> None:
        del target_host
        check_is_kernel("compile", func)
        self.prim_func = func
        self.target = parse_target(target)
        self.execution_backend = parse_execution_backend(execution_backend, self.target)
        self.options = options_of(func, pass_configs, compile_flags, verbose=verbose)
        self.signature = Signature.of(func, out_idx)
        write_dumps(func, self.target, self.options)
        self._runner: Runner = make_runner(func, self.signature, self.target, self.options, self.execution_backend)
        self._orders: dict[tuple[Any, ...], tuple[int, ...]] = {}  # of calls with keywords, by their form
        self._simulator: Any = self._runner if self.execution_backend == "simulator" else None

    @property
    def out_idx(self) -> list[int]:
        """The parameters that a call allocates and returns."""
        return list(self.signature.outputs)

    @property
    def torch_function(self) -> Callable[..., Any]:
        """The function that a call runs."""
        return self.__call__

    @property
    def adapter(self) -> JITKernel:
        """The kernel itself; accepted as published."""
        return self

    def __repr__(self) -> str:
        return f"JITKernel({self.prim_func.name}, target={str(self.target)!r})"

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)  # protocol probes
        near = nearest(attribute, [name for name in dir(self) if not name.startswith("_")])
        try:
            raise UnknownAttribute(
                f"a kernel has no attribute '{attribute}'",
                hint=_OTHER_METHODS.get(attribute) or (f"did you mean '{near}'?" if near else ""),
            )
        except UnknownAttribute as error:
            error.__traceback__ = None  # the frame of this package
            raise

    def _repr_html_(self) -> str:
        """The representation in notebooks: parameters, grid, and resource usage."""
        from tilelang.jit.kernel_html import html_of  # noqa: PLC0415  notebooks ask

        return html_of(self)

    # -- calling --------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Runs the kernel on the inputs, or on all parameters; returns the outputs named by `out_idx`.

        Arguments that have no values yet, which define `__tilelang_call__`, record the call instead.

        Raises:
            ArgumentError: An argument does not fit; nothing has been run.
            DeviceAssertError: An assertion of the kernel failed while it ran; on a GPU, in an earlier call.
            DriverError: There is no GPU to run on, or it refused the launch.
        """
        try:
            if keywords:
                args = tuple(self._in_order(args, keywords))
            try:
                return self._runner.call(*args)
            except ArgumentError:
                record = next((arg.__tilelang_call__ for arg in args if hasattr(type(arg), "__tilelang_call__")), None)
                if record is None:
                    raise
            return record(self, args)
        except TileLangError as error:  # as `public`, without its cost on every call
            strip_frames(error)
            if sys.version_info >= (3, 11):
                raise
            raise error from error.__cause__

    def simulate(
        self, *args: Any, report: bool | Counters = False, lazy: bool = True, seed: int = 0, **keywords: Any
    ) -> Any:
        """Runs a GPU's thread-level program on host arrays, and reports what would go wrong on the device.

        Args:
            args: As for a call, in host memory.
            report: Print a table of instructions, bytes, transactions and bank conflicts; or where to put the counts.
            lazy: Let asynchronous work land as late as its waits allow; at once otherwise.
            seed: Draws the order in which blocks and warps run; the same seed gives the same run.
            keywords: Arguments by name.

        Returns:
            What a call returns.

        Raises:
            SimulationError: The kernel would go wrong; the subclass says how.
            OptionError: The kernel is compiled for the CPU.
        """
        from tilelang.sim.counters import Counters  # noqa: PLC0415  few kernels are simulated

        if self.target.kind == "cpu":
            raise OptionError(
                "simulate: the simulator runs programs of GPUs, and this kernel is compiled for the CPU",
                hint="compile with target={'kind': 'cuda', 'arch': 'sm_90a'}",
            )
        if keywords:
            args = tuple(self._in_order(args, keywords))
        if self._simulator is None:
            self._simulator = simulator_runner(self.prim_func, self.signature, self.target, self.options)
        counters = report if isinstance(report, Counters) else Counters() if report else None
        result = self._simulator.simulate(args, lazy=lazy, seed=seed, counters=counters)
        if counters is not None and not isinstance(report, Counters):
            print(counters.table())  # noqa: T201  the user asked for it
        return result

    def synchronize(self) -> None:
        """Waits until what was launched is done, and says if an assertion of a kernel failed.

        Raises:
            DeviceAssertError: One has failed; the process cannot use the device any more.
            DriverError: Something else went wrong on the device.
        """
        self._runner.synchronize()

    def _in_order(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
        call = (len(args), *keywords)
        order = self._orders.get(call)
        if order is None:
            order = self._orders[call] = order_keywords(self.signature, len(args), keywords)
        given = (*args, *keywords.values())
        return [given[place] for place in order]

    # -- looking inside -------------------------------------------------------------------------------------
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

    def explain(self, svg: str | os.PathLike[str] | None = None) -> str:
        """Explain the compiler's decisions: how each operator is done, layouts, pipelines, shared memory.

        One line per decision, with the place in the program that it is about; what costs something, such as a
        conversion between two layouts of one tile, says what. The first line is what `predict` gives, where it can.

        Args:
            svg: The path of a file for a picture of the timelines of pipelined loops.

        Raises:
            OptionError: There is no timeline to draw.
        """
        from tilelang.jit.decisions import decisions, write_timelines  # noqa: PLC0415  few ask
        from tilelang.jit.prediction import predicted  # noqa: PLC0415  as above

        shots = snapshots(self.prim_func, self.target, self.options)
        if svg is not None:
            write_timelines(shots[-1].func, svg)
        text = decisions(shots, self.options)
        try:
            return f"{predicted(shots[-1].func, self.target, self.options, self._runner.code)}\n{text}"
        except (OptionError, ProgramValueError):
            return text

    def predict(self) -> Prediction:
        """Predict how long the kernel takes on the machine that it is compiled for; nothing runs.

        The time of a call when its arrays are not in the caches. It follows from the program of the threads and the
        machine's record, so that no device is needed.

        Returns:
            `seconds`, `bound` (what limits it), and `parts` (what each part would take by itself). As text it reads
            "bound by matrix units, predicted 41 us".

        Raises:
            OptionError: The model has no figures of the machine, such as the CPU.
            ProgramValueError: A size is symbolic.
        """
        from tilelang.jit.prediction import predicted  # noqa: PLC0415  few ask
        from tilelang.jit.program import lowered  # noqa: PLC0415  as above

        func = lowered(self.prim_func, self.target, self.options)
        return predicted(func, self.target, self.options, self._runner.code)

    # -- measuring ------------------------------------------------------------------------------------------
    def get_profiler(self, tensor_supply_type: TensorSupplyType | None = None) -> Profiler:
        """A profiler that makes inputs of the kernel's shapes, `TensorSupplyType.Auto` unless said, and measures it."""
        from tilelang.profile.inputs import TensorSupplyType  # noqa: PLC0415
        from tilelang.profile.profiler import Profiler  # noqa: PLC0415  few kernels are measured

        on_device = self._runner.code is not None
        chosen = tensor_supply_type or TensorSupplyType.Auto
        return Profiler(self, self.signature, chosen, "cuda" if on_device else "cpu")

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """Calls the kernel, or `func`, once on made-up inputs; gives what it returns."""
        return self.get_profiler().run_once(func)

    def update_tuner_result(
        self, latency: float | None, config: Mapping[str, Any] | None, ref_latency: float | None
    ) -> JITKernel:
        """Says what a search found about this kernel, which is returned: milliseconds, tunables, the reference's."""
        self.latency, self.config, self.ref_latency = latency, config, ref_latency
        return self

    def get_tuner_result(self) -> dict[str, Any]:
        """Return the result of a search for this kernel: "latency", "config" and "ref_latency".

        Raises:
            ValueError: The kernel was not tuned.
        """
        if self.latency is None:
            raise OptionError(
                f"get_tuner_result: kernel '{self.prim_func.name}' was not tuned",
                hint="call a function marked @tilelang.autotune, or AutoTuner.run, and query that kernel",
            )
        return {"latency": self.latency, "config": self.config, "ref_latency": self.ref_latency}


def check_is_kernel(what: str, func: object) -> None:
    """Refuses what is no kernel.

    Raises:
        OptionError: `func` is something else.
    """
    if not isinstance(func, PrimFunc):
        instead = "pass a function marked @T.prim_func; call the function that returns it first"
        if isinstance(func, JITKernel):
            instead = "it is compiled already: call it with its tensors"
        raise OptionError(f"{what}: expected a kernel, got {type(func).__name__}", hint=instead)
