"""Tunes the tilings of a computation: measures the programs that the model predicts to be fastest.

Takes a graph, gives the texts of tilings, which `lower` takes. Results are kept beside the compile cache, keyed by the
untuned program and the version of the package.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from tilelang.environment import is_cache_enabled
from tilelang.ir.func import PrimFunc
from tilelang.jit.decorator import JitFunction
from tilelang.jit.options import JitOptions
from tilelang.jit.program import package_fingerprint
from tilelang.level1.execution import arrays_of_parts, options_for, program_of
from tilelang.level1.graph import Graph
from tilelang.level1.lower import Lowered, lower
from tilelang.level1.split_calls import split_at_calls
from tilelang.records import record
from tilelang.runtime import cache
from tilelang.targets.target import Target
from tilelang.tune.decisions import Decision
from tilelang.tune.result import Measurement, TuningResult
from tilelang.tune.settings import Settings
from tilelang.tune.subject import PASS_CONFIGS, Subject
from tilelang.tune.tuner import tune

_FORMAT = "level1-tilings-1"
_SUFFIX = ".tilings.json"
_MAX_TILINGS = 24  # tilings of a kernel that the model looks at
_TILINGS = "tilings"  # the key of a decision


@record(eq=False)
class Tuned:
    """The result of a search.

    Attributes:
        tilings: The text of the tiling of each kernel.
        result: The times of all that was measured.
    """

    tilings: tuple[str, ...]
    result: TuningResult

    def decision(self, arguments: Mapping[str, str], target: Target) -> Decision:
        """The result as an entry of a file of decisions."""
        result = self.result
        config = {_TILINGS: list(self.tilings)}
        return Decision(result.name, arguments, str(target), config, result.latency, result.device)


def tilings_of_decision(decision: Decision) -> tuple[str, ...]:
    """The texts of tilings that a decision holds."""
    return tuple(decision.config.get(_TILINGS, ()))


def tune_computation(
    graph: Graph,
    lowered: Lowered,
    target: Target,
    options: JitOptions,
    arrays: Sequence[Any] | None,
    settings: Mapping[str, Any],
) -> Tuned:
    """Measures programs of a computation; between calls of Level 2 kernels, each part has programs of its own.

    Args:
        graph: The computation.
        lowered: Its program without tuning.
        target: What it is compiled for.
        options: What the decorator was given.
        arrays: The arrays of a call; made up without them.
        settings: Those of `tune_tilings`; parts share the seconds equally.
    """
    if not lowered.parts:
        return tune_tilings(graph, target, options, arrays, **settings)
    given: Iterable[tuple[Graph, Sequence[Any] | None]]
    if arrays is None:
        given = [(part.graph, None) for part in split_at_calls(graph) if part.outputs]
    else:
        given = arrays_of_parts(graph, lowered, options, arrays)
    budget = settings["budget_s"]
    shared = {**settings, "budget_s": None if budget is None else budget / len(lowered.parts)}
    tuned = [tune_tilings(part, target, options, own, **shared) for part, own in given]
    tilings = tuple(tiling for each in tuned for tiling in each.tilings)
    _store(lowered, target, tilings)
    return Tuned(tilings, _merged_results(graph.name, [each.result for each in tuned]))


def _merged_results(name: str, results: Sequence[TuningResult]) -> TuningResult:
    """The result of searches for parts that run one after another: the fastest configuration of each."""
    config = {result.name: result.config for result in results}
    latency = sum(result.latency for result in results)
    rounds = min(result.measured[0].rounds for result in results)
    return TuningResult(
        name,
        results[0].device,
        (Measurement(config, latency, 1.0, rounds),),
        tuple(rejection for result in results for rejection in result.rejected),
        seconds=sum(result.seconds for result in results),
    )


def tune_tilings(
    graph: Graph,
    target: Target,
    options: JitOptions,
    arrays: Sequence[Any] | None = None,
    *,
    budget_s: float | None = None,
    trials: int | None = 5,
    executor: Executor | None = None,
) -> Tuned:
    """Measures the programs that the model expects to be fastest, the one without tuning among them.

    Args:
        graph: The computation.
        target: What it is compiled for.
        options: What the decorator was given.
        arrays: The arrays of a call; made up without them.
        budget_s: Seconds after which the search takes the best it has.
        trials: How many programs are measured; None for all.
        executor: Predicts, compiles and measures instead of this process.

    Raises:
        TuningError: No program can be used.
        OptionError: Programs cannot be timed.
    """
    programs = candidates(graph, target)
    configs = [_config(number, each, graph, options) for number, each in enumerate(programs)]
    shared = options_for(graph, programs[0], options)
    own = dataclasses.replace(shared, target=target, pass_configs=options.pass_configs)
    made = JitFunction(_program_maker(graph.name, [program.text for program in programs]), own)
    settings = Settings(
        budget=budget_s, trials=trials, executor=executor, supply_prog=None if arrays is None else _supply(arrays)
    )
    result = tune(Subject(made), configs, settings)
    tilings = tuple(map(str, programs[result.config["number"]].tilings))
    _store(programs[0], target, tilings)
    return Tuned(tilings, result)


def _store(default: Lowered, target: Target, tilings: Sequence[str]) -> None:
    """Keeps a result beside the compile cache."""
    if is_cache_enabled():
        cache.store(_key(default, target), _SUFFIX, json.dumps(tilings).encode())


def known_tilings(default: Lowered, target: Target) -> tuple[str, ...]:
    """The result of an earlier search for a program; empty without one."""
    data = cache.lookup(_key(default, target), _SUFFIX) if is_cache_enabled() else None
    return () if data is None else tuple(json.loads(data))


def candidates(graph: Graph, target: Target) -> list[Lowered]:
    """Different programs of a computation, the one that is taken without tuning first."""
    default = lower(graph, target)
    own = [str(tiling) for tiling in default.tilings]
    choices = [own]
    for number, tilings in enumerate(default.choices):
        others = [text for text in map(str, tilings[:_MAX_TILINGS]) if text != own[number]]
        choices += [[*own[:number], text, *own[number + 1 :]] for text in others]
    return [default, *(lower(graph, target, tilings=texts) for texts in choices[1:])]


def _config(number: int, program: Lowered, graph: Graph, options: JitOptions) -> dict[str, Any]:
    """A program as a configuration of the tuner: its number and its `pass_configs`."""
    return {"number": number, PASS_CONFIGS: dict(options_for(graph, program, options).pass_configs or {})}


def _program_maker(name: str, texts: Sequence[str]) -> Callable[[int], PrimFunc]:
    """The function that stages one of the programs; it can be sent to other processes."""

    def make(number: int) -> PrimFunc:
        return program_of(texts[number], name)

    make.__name__ = make.__qualname__ = name
    return make


def _supply(arrays: Sequence[Any]) -> Callable[[Any], list[Any]]:
    def supply(params: Any) -> list[Any]:
        del params
        return list(arrays)

    return supply


def _key(default: Lowered, target: Target) -> str:
    return cache.key_of(_FORMAT, default.text, str(target), package_fingerprint())
