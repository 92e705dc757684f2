import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from tilelang.errors import ProgramError
from tilelang.tune import workers
from tilelang.tune.workers import LATE, Failure, can_fork, cores, failure_of, run_all

needs_fork = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
WAYS = [pytest.param(True, marks=needs_fork, id="processes"), pytest.param(False, id="threads")]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(workers, "can_fork", lambda: request.param)
    return bool(request.param)


def test_everything_is_made_once(tmp_path: Path, way: bool) -> None:
    def make(index: int) -> None:
        with open(tmp_path / f"{index}.{os.getpid()}", "x"):
            pass

    told: list[int] = []
    assert [None] * 9 == run_all(make, 9, workers=3, timeout=60, progress=told.append)
    made = [path.name.split(".") for path in tmp_path.iterdir()]
    assert [str(n) for n in range(9)] == sorted(index for index, _ in made)
    assert 9 == told[-1]
    assert (str(os.getpid()) not in {process for _, process in made}) == way


def test_failures_have_a_reason_and_do_not_stop_others(way: bool) -> None:
    def make(index: int) -> None:
        if index == 1:
            raise ProgramError("T.copy: shapes differ\nat length", hint="write less")
        if index == 2:
            raise ValueError("bad\nvalue")

    assert [
        None,
        Failure("T.copy: shapes differ", "T.copy: shapes differ\nat length\nhint: write less"),
        Failure("ValueError: bad", "ValueError: bad\nvalue"),
        None,
    ] == run_all(make, 4, workers=2, timeout=60)


@needs_fork
def test_hanging_and_crashing_tasks_are_ended() -> None:
    def make(index: int) -> None:
        if index == 0:
            time.sleep(60)
        if index == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        print("loud")

    start = time.monotonic()
    found = run_all(make, 5, workers=2, timeout=0.3)
    assert time.monotonic() - start < 20
    assert [
        Failure("it took longer than 0.3 s"),
        Failure("the compiling process died with SIGKILL"),
        None,
        None,
        None,
    ] == found
    assert [] == multiprocessing.active_children()


def test_at_the_deadline_the_rest_is_given_up(way: bool) -> None:
    def make(index: int) -> None:
        if index:
            time.sleep(0.3)

    found = run_all(make, 12, workers=2, timeout=60, deadline=time.monotonic() + 0.1)
    assert None is found[0]
    assert LATE in found
    assert {None, LATE} == set(found)


def test_at_least_one_task_is_run_despite_the_deadline(way: bool) -> None:
    def make(index: int) -> None:
        time.sleep(0.05)
        if index == 0:
            raise ValueError

    found = run_all(make, 4, workers=1, timeout=60, deadline=time.monotonic() - 1)
    assert [Failure("ValueError", "ValueError"), None, LATE, LATE] == found


def test_without_the_cache_nothing_is_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.environment._CacheSwitch.enabled", False)
    assert not can_fork()


def test_there_is_at_least_one_core() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)


def test_tilelang_errors_are_reported_by_their_first_line() -> None:
    assert "too large" == failure_of(ProgramError("too large\nby 3")).message
    assert "KeyError: 'x'" == failure_of(KeyError("x")).message
