"""`@tilelang.compute`: a function on arrays, compiled once for each set of shapes, dtypes and Python values.

The function runs once on arrays without values; what it computes is a graph, from which kernels are made. Invariant:
calls with equal keys (`calls.Binding`) run the same kernels.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, overload

from tilelang.api import caller, public, strip_frames
from tilelang.errors import ArgumentError, Loc, OptionError, ProgramValueError, StagingTypeError
from tilelang.jit.call_keys import selector
from tilelang.jit.kernel import JITKernel
from tilelang.jit.options import JitOptions
from tilelang.jit.runners import Runner
from tilelang.jit.signature import is_array
from tilelang.language.parameters import annotations_of
from tilelang.language.types import TensorType
from tilelang.level1.calling_program import lower_computation
from tilelang.level1.calls import Binding, bind_arguments, output_arrays, too_few_elements
from tilelang.level1.execution import KernelSequence, compile_lowered, predict_program, reference_of
from tilelang.level1.explain import explain
from tilelang.level1.graph import Graph
from tilelang.level1.known_calls import CallForm, form_of_call
from tilelang.level1.lower import Lowered
from tilelang.level1.split_calls import has_calls, split_at_calls
from tilelang.level1.structure import Structure
from tilelang.level1.trace import is_tracing, trace
from tilelang.level1.tune import Tuned, known_tilings, tilings_of_decision, tune_computation
from tilelang.runtime.arrays import borrow
from tilelang.runtime.dense_copies import dense, write_back
from tilelang.runtime.fast_path import MISSED
from tilelang.targets.target import Target, TargetLike
from tilelang.tune.decisions import Decision, add_decisions, find
from tilelang.tune.result import TuningResult


class _Computation:
    """A function for one set of shapes, dtypes and Python values; lowered and compiled when that is first needed.

    Args:
        graph: What it computes.
        structure: How its result is made of the results of the graph.
        target: What it is compiled for.
        execution_backend: How it runs.
        options: What the decorator was given.
        decided: Gives the texts of the tilings that a file of decisions has for the call; None without a file.
    """

    def __init__(
        self,
        graph: Graph,
        structure: Structure,
        target: Target,
        execution_backend: str,
        options: JitOptions,
        decided: Callable[[Target], Sequence[str]] | None,
    ) -> None:
        self.graph, self.structure = graph, structure
        self._target, self._backend, self._options, self._decided = target, execution_backend, options, decided

    @functools.cached_property
    def lowered(self) -> Lowered:
        """The Level 2 program, tiled as a file of decisions or an earlier search says, otherwise by the model.

        Raises:
            TuningError: A file of decisions does not fit.
        """
        if self._decided is not None:
            return lower_computation(self.graph, self._target, tilings=self._decided(self._target))
        default = lower_computation(self.graph, self._target)
        tilings = known_tilings(default, self._target)
        return lower_computation(self.graph, self._target, tilings=tilings) if tilings else default

    def explain(self) -> str:
        """Describes the decisions for each program, and the kernels that are called between them."""
        if not has_calls(self.graph):
            return self._explanation(self.lowered)
        programs, parts = iter(self.lowered.parts), []
        for segment in split_at_calls(self.graph):
            if segment.outputs:
                parts.append(self._explanation(next(programs)))
            if segment.call is not None:
                parts.append(f"{self.graph.name}: calls the kernel '{segment.call.kernel.prim_func.name}'")
        return "\n".join(parts)

    def _explanation(self, lowered: Lowered) -> str:
        try:
            return explain(lowered, predict_program(lowered, self._target, self._options))
        except (OptionError, ProgramValueError):  # it is a CPU, or a size is symbolic
            return explain(lowered)

    def tune(self, arrays: Sequence[Any], settings: Mapping[str, Any]) -> Tuned:
        """Measures programs, and takes the fastest from now on."""
        given = arrays if all(borrow(array) is not None for array in arrays) else None
        tuned = tune_computation(self.graph, self.lowered, self._target, self._options, given, settings)
        for name in ("lowered", "kernel", "run", "_runner"):
            self.__dict__.pop(name, None)
        self._decided = lambda target: tuned.tilings
        return tuned

    @functools.cached_property
    def kernel(self) -> JITKernel | KernelSequence:
        """The compiled program, or the programs between calls of kernels: takes parameters, and returns results."""
        if has_calls(self.graph):
            return KernelSequence(self.graph, self.lowered, self._target, self._options)
        return compile_lowered(self.graph, self.lowered, self._options)

    @functools.cached_property
    def run(self) -> Callable[..., Any]:
        """Runs it on the arrays of a call, and on those of its results if they are given; gives its results."""
        return reference_of(self.graph) if self._backend == "reference" else self.kernel

    @functools.cached_property
    def _runner(self) -> Runner | None:
        return self.run._runner if isinstance(self.run, JITKernel) else None

    @property
    def attempt(self) -> Callable[..., Any] | None:
        """Runs the kernel if fast checks accept the arrays, and gives `MISSED` otherwise; None without such checks."""
        return None if self._runner is None else self._runner.attempt

    def call(self, arrays: Sequence[Any], out: Any) -> Any:
        """The result for the arrays of a call; `out`, with the result written to it, if that is given.

        Raises:
            ArgumentError: An array does not fit.
            ProgramValueError: A symbolic size is too small.
        """
        given = [] if out is None else output_arrays(self.graph, out, self.structure)
        try:
            results = self.run(*arrays, *given)
        except ArgumentError as error:
            copies = [*map(dense, (*arrays, *given))]
            if all(copy is array for copy, array in zip(copies, (*arrays, *given), strict=True)):
                raise too_few_elements(self.graph, arrays) or error from None
            results = self._call_with_copies(copies, arrays, given)
        return self.result_of(results) if out is None else out

    def result_of(self, results: Any) -> Any:
        """What the function returns, made of what the kernel returns."""
        if self.structure.kind is None:
            return results
        return self.structure.rebuild(results if len(self.graph.results) > 1 else [results])

    def _call_with_copies(self, copies: Sequence[Any], arrays: Sequence[Any], given: Sequence[Any]) -> Any:
        try:
            results = self.run(*copies)
        except ArgumentError as error:
            raise too_few_elements(self.graph, arrays) or error from None
        for array, copy in zip(given, copies[len(arrays) :], strict=True):
            if copy is not array:
                write_back(copy, array)
        return results


@public
class ComputeFunction:
    """A function marked `@tilelang.compute`.

    A call takes the arguments of the function: arrays of NumPy, torch, CuPy or JAX, lists, tuples and dicts of them,
    and Python values; it returns what the function returns, with arrays like those that were passed. Arrays that are
    not contiguous are copied. `out=` is where results are written, in the form in which they are returned. Inside
    another function marked `@tilelang.compute`, a call is part of that.

    Attributes:
        function: The user's function.
        signature: Its signature.
        options: What the decorator was given.
    """

    __name__: str

    def __init__(
        self,
        function: types.FunctionType,
        options: JitOptions,
        namespace: Mapping[str, Any] | None = None,
        decisions: str | Path | None = None,
    ) -> None:
        self.function, self.options = function, options
        self._decisions = decisions
        self._tuned: list[Decision] = []
        self.signature = inspect.signature(function)
        annotations = annotations_of(function, namespace or {})
        self._types = {name: kind for name, kind in annotations.items() if isinstance(kind, TensorType)}
        self._takes_out = "out" in self.signature.parameters
        by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self._names = tuple(name for name, each in self.signature.parameters.items() if each.kind in by_position)
        self._computations: dict[Any, _Computation] = {}
        self._forms: dict[Any, CallForm[_Computation]] = {}
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<computation {self.__name__}{self.signature}>"

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Runs the computation, which is compiled on the first call.

        Raises:
            ArgumentError: An argument does not fit; nothing has been run.
            TileLangError: Any of the package's errors that tracing and compiling can meet.
        """
        if is_tracing():
            return self.function(*args, **keywords)
        try:
            return self._run(args, keywords)
        except Exception as error:  # as `public`, without its cost on every call
            strip_frames(error)
            if sys.version_info >= (3, 11):
                raise
            raise error from error.__cause__

    def _run(self, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        out = None if self._takes_out else keywords.pop("out", None)
        key = form_of_call(args, keywords)
        form = self._forms.get(key)
        if form is not None:
            arrays = form.pick((*args, *keywords.values()) if keywords else args)
            latest = form.latest
            if out is None and (attempt := latest.attempt) is not None:
                results = attempt(*arrays)
                if results is not MISSED:
                    return latest.result_of(results)
            known = form.find(arrays)
            if known is not None:
                return known.call(arrays, out)
        binding = self._bind(args, keywords)
        computation = self._computation(binding)
        result = computation.call(binding.arrays, out)
        if key is not None:
            self._remember(key, args, keywords, binding, computation)
        return result

    def _remember(
        self, key: Any, args: Sequence[Any], keywords: Mapping[str, Any], binding: Binding, computation: _Computation
    ) -> None:
        """Adds a call to those of its form, whose arrays are all among its arguments."""
        form = self._forms.get(key)
        if form is None:
            names, values = [*self._names[: len(args)], *keywords], [*args, *keywords.values()]
            order = [name for name in self.signature.parameters if name in names]
            arrays = [name for name in order if is_array(values[names.index(name)])]
            if len(arrays) < len(binding.arrays):  # some are defaults
                return
            sized = tuple(name not in self._types for name in arrays)
            form = CallForm(selector([names.index(name) for name in arrays]), sized, computation)
            self._forms[key] = form
        form.add(binding.arrays, computation)

    def graph(self, *args: Any, **keywords: Any) -> Graph:
        """What is computed for these arguments; its text has a line for each array.

        Arrays may be given, or stand-ins such as `T.Tensor((1024, 1024), "float16")`; annotated ones may be left out.
        """
        return self._computation(self._bind(args, keywords, may_omit=True)).graph

    def lower(self, *args: Any, **keywords: Any) -> Lowered:
        """The kernels for these arguments, in the order in which they run; `memory` is what passes between them.

        It also has the Level 2 program (`text`) and how each kernel is divided (`tilings`).
        """
        return self._computation(self._bind(args, keywords, may_omit=True)).lowered

    def program(self, *args: Any, **keywords: Any) -> str:
        """The text of the Level 2 program: a Python module that can be kept, edited and run by itself."""
        return self.lower(*args, **keywords).text

    def explain(self, *args: Any, **keywords: Any) -> str:
        """What the compiler decided: which kernels there are, what is fused in each, its tiles, and what it reads.

        For GPUs, it also gives the predicted time, and what bounds it.
        """
        return self._computation(self._bind(args, keywords, may_omit=True)).explain()

    def tune(
        self,
        *args: Any,
        budget_s: float | None = None,
        trials: int | None = 5,
        executor: Executor | None = None,
        **keywords: Any,
    ) -> TuningResult:
        """Measures programs with other tiles, of which later calls with such arguments take the fastest.

        What is found is kept beside the compile cache, so that other processes take it as well.

        Args:
            args: As for a call; results are computed from these arrays.
            budget_s: Seconds after which the search takes the best it has.
            trials: How many programs are measured, those that the performance model expects to be fastest; None for
                all. Where no rates of the machine were measured, all are.
            executor: A `concurrent.futures.Executor` that does all this instead of this process.
            keywords: As for a call.

        Raises:
            TuningError: No program can be used.
            OptionError: Programs are interpreted or simulated, so that they have no times.
        """
        binding = self._bind(args, keywords, may_omit=True)
        computation = self._computation(binding)
        settings = {"budget_s": budget_s, "trials": trials, "executor": executor}
        tuned = computation.tune(binding.arrays, settings)
        target, _ = self.options.chosen()
        self._tuned.append(tuned.decision(binding.described(), target))
        return tuned.result

    def export(self, path: str | Path) -> None:
        """Writes what `tune` found into a file, which `tilelang.compute(decisions=...)` obeys.

        Entries that the file has of other functions and calls stay.

        Args:
            path: The file, which can be checked in.

        Raises:
            OptionError: Nothing was tuned yet.
            TuningError: The file exists, and holds something else.
        """
        if not self._tuned:
            raise OptionError(f"export: '{self.__name__}' has not been tuned yet", hint="call tune(...) first")
        add_decisions(path, self._tuned)

    def compile(self, *args: Any, **keywords: Any) -> JITKernel | KernelSequence:
        """The compiled program; it takes the arrays among the arguments in order, and returns those of the result.

        A computation that calls Level 2 kernels is a `KernelSequence`: those kernels, and its own before and after.
        """
        return self._computation(self._bind(args, keywords, may_omit=True)).kernel

    def _bind(self, args: Sequence[Any], keywords: Mapping[str, Any], *, may_omit: bool = False) -> Binding:
        return bind_arguments(self.function, self.signature, self._types, args, keywords, may_omit=may_omit)

    def _computation(self, binding: Binding) -> _Computation:
        target, backend = self.options.chosen()
        key = (binding.key, target, backend)
        if key not in self._computations:
            graph, structure = trace(self.__name__, self._loc(), binding.parameters, binding.call)
            made = _Computation(graph, structure, target, backend, self.options, self._decided(binding))
            self._computations.setdefault(key, made)
        return self._computations[key]

    def _decided(self, binding: Binding) -> Callable[[Target], Sequence[str]] | None:
        """Gives the tilings of a file of decisions for a call; None without a file."""
        path = self._decisions
        if path is None:
            return None
        arguments = binding.described()
        return lambda target: tilings_of_decision(find(path, self.__name__, arguments, str(target)))

    def _loc(self) -> Loc:
        """The line of the `def`, below its decorators."""
        code = self.function.__code__
        file, first, name = code.co_filename, code.co_firstlineno, code.co_name
        for line, text in enumerate(linecache.getlines(file)[first - 1 :], first):
            if text.lstrip().startswith(f"def {name}"):
                return Loc(file, line, len(text) - len(text.lstrip()), line, len(text.rstrip()), name)
        return Loc(file, first, function=name)


@overload
def compute(function: Callable[..., Any]) -> Any: ...


@overload
def compute(
    function: None = None,
    *,
    target: TargetLike = None,
    execution_backend: str | None = None,
    verbose: bool | None = None,
    pass_configs: Mapping[str, object] | None = None,
    compile_flags: str | Sequence[str] | None = None,
    decisions: str | Path | None = None,
) -> Callable[[Callable[..., Any]], Any]: ...


@public
def compute(
    function: Callable[..., Any] | None = None,
    *,
    target: TargetLike = None,
    execution_backend: str | None = None,
    verbose: bool | None = None,
    pass_configs: Mapping[str, object] | None = None,
    compile_flags: str | Sequence[str] | None = None,
    decisions: str | Path | None = None,
) -> Any:
    """Makes a function on arrays a computation: `@tilelang.compute`, or with options.

    The function states what is computed, by `tilelang.numpy`; kernels, tiles and threads are the compiler's choice. It
    runs once for each set of shapes, dtypes and Python values, on arrays that have no values yet.

    Args:
        function: The function, where the decorator is used bare.
        target: What to compile for; "auto" or None takes the best target present.
        execution_backend: How kernels run, as for `JITKernel`; "reference" computes by the meaning in NumPy.
        verbose: Print the compiler's command line and log.
        pass_configs: Switches by `PassConfigKey` or its text.
        compile_flags: Appended to the compiler's command line; a text is split as a shell does.
        decisions: A file of `ComputeFunction.export`, which says how kernels are divided.

    Raises:
        OptionError: The target, the backend or a key of `pass_configs` is unknown.
        StagingTypeError: What is decorated is no function.

    Example:
        `@tilelang.compute` on `def scaled(x, factor=2.0): return x * factor`, then `y = scaled(x)`
    """
    options = JitOptions(None, target, execution_backend, pass_configs, compile_flags, verbose)
    namespace = caller().f_locals

    @public
    def decorate(function: Callable[..., Any]) -> ComputeFunction:
        if not isinstance(function, types.FunctionType):
            raise StagingTypeError(f"@tilelang.compute needs a function, got {type(function).__name__}")
        return ComputeFunction(function, options, namespace, decisions)

    return decorate if function is None else decorate(function)
