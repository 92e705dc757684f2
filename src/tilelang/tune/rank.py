"""Orders configurations by the time that the performance model predicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.jit.func_options import options_of
from tilelang.jit.prediction import predicted
from tilelang.jit.program import lowered
from tilelang.performance.prediction import duration
from tilelang.targets.target import Target
from tilelang.tune.executors import SubjectMessage
from tilelang.tune.subject import Subject
from tilelang.tune.workers import Failure, failure_of


def has_rates(target: Target) -> bool:
    """Whether the model has figures of a machine."""
    return target.machine.rates is not None and target.machine.multiprocessors > 0


def expected_seconds(subject: Subject, config: Mapping[str, Any]) -> float:
    """The predicted time of a configuration, which is lowered for that and not compiled.

    Raises:
        TileLangError: Any of the package's errors that lowering can meet.
        ProgramValueError: A size is symbolic.
    """
    func, options = subject.program(config), subject.with_pass_configs_of(config).options
    compile_options = options_of(func, options.pass_configs, options.compile_flags)
    return predicted(lowered(func, subject.target, compile_options), subject.target, compile_options).seconds


def expected_seconds_remote(subject: SubjectMessage, config: Mapping[str, Any]) -> float | Failure:
    """The predicted time of a configuration in another process, or why there is none."""
    try:
        return expected_seconds(subject.restore(), config)
    except Exception as error:
        return failure_of(error)


def rejection_text(seconds: float, rank: int, trials: int) -> str:
    """Why a configuration is not measured."""
    return f"predicted {duration(seconds)}, which is place {rank}, and the first {trials} are measured"
