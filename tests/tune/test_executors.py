import linecache
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tunable import double, subject_of

import tilelang
import tilelang.language as T
from tilelang.errors import OptionError
from tilelang.runtime import cache
from tilelang.tune.executors import SubjectMessage, compile_remote, run_tasks, store_entries
from tilelang.tune.workers import LATE, Failure


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def test_tasks_give_values_in_order() -> None:
    told: list[int] = []
    with ThreadPoolExecutor(2) as pool:
        found = run_tasks(pool, [lambda n=n: n * n for n in range(5)], timeout=60, progress=told.append)  # type: ignore[misc]
    assert [0, 1, 4, 9, 16] == found
    assert 5 == told[-1]


def test_at_the_deadline_the_rest_is_given_up() -> None:
    def wait(seconds: float) -> str:
        time.sleep(seconds)
        return "done"

    with ThreadPoolExecutor(1) as pool:
        tasks = [lambda: wait(0.05), lambda: wait(0.5), lambda: wait(0.0)]
        found = run_tasks(pool, tasks, timeout=60, deadline=time.monotonic() + 0.2)
    assert ["done", LATE, LATE] == found


def test_what_takes_too_long_is_given_up() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert [Failure("it took longer than 0.1 s")] == run_tasks(pool, [lambda: time.sleep(0.5)], timeout=0.1)


def test_an_executor_that_cannot_send_a_task_is_refused() -> None:
    with ProcessPoolExecutor(1) as pool, pytest.raises(OptionError) as caught:
        run_tasks(pool, [lambda: 1], timeout=60)
    assert caught.value.message.startswith("autotune: ProcessPoolExecutor cannot run a task: ")
    assert "Dask and Ray send it by value" in caught.value.hint


def test_entries_of_another_cache_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a size of its own: the factory keeps kernels that other tests compiled, which then make no entries
    sent = SubjectMessage.of(subject_of(double, 320))
    entries = compile_remote(sent, {"block": 16})
    assert isinstance(entries, dict) and entries
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(folder / "other"))
    assert all(cache.lookup(*name) is None for name in entries)
    store_entries(entries)
    assert all(cache.lookup(*name) == content for name, content in entries.items())


def test_what_does_not_compile_is_a_failure() -> None:
    assert isinstance(compile_remote(SubjectMessage.of(subject_of(double, 64)), {"block": "wide"}), Failure)


def test_dask_compiles_and_measures_on_its_workers() -> None:
    distributed = pytest.importorskip("distributed")

    @tilelang.jit(out_idx=[-1], target="cpu")
    def scale(n, block=None):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, block)) as bx:
                for i in T.Parallel(block):
                    B[bx * block + i] = A[bx * block + i] * 2

        return main

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "processes": True}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        tuned = tilelang.autotune(scale, configs={"block": [16, 64]}, warmup=1, rep=5, executor=client.get_executor())
        kernel = tuned(256)
    assert kernel.config["block"] in (16, 64)
    np.testing.assert_array_equal(kernel(np.ones(256, np.float32)), np.full(256, 2, np.float32))


def test_the_source_of_the_function_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = SubjectMessage.of(subject_of(double, 64))
    assert any("def double" in line for line in sent.lines)
    file = double.__code__.co_filename
    monkeypatch.setattr("linecache.getlines", lambda name: [])
    sent.restore()
    assert list(sent.lines) == linecache.cache[file][2]  # type: ignore[misc]
