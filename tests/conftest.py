"""What every test shares: a cache folder of its own session, deterministic property tests, sampled sweeps, tiers."""

import atexit
import contextlib
import gc
import os
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Collection, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["invented_fixtures", "language_fixtures", "tuning_fixtures"]  # of tests/support

# Set before anything imports tilelang; worker processes inherit it, so a session compiles each kernel once.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["TILELANG_CACHE_DIR"] = tempfile.mkdtemp(prefix="tilelang-tests-")
    atexit.register(shutil.rmtree, os.environ["TILELANG_CACHE_DIR"], ignore_errors=True)
    if gold := shutil.which("ld.gold"):  # GNU's other linker reads libstdc++ in a third of the time; GCC looks here first
        os.environ["COMPILER_PATH"] = tempfile.mkdtemp(prefix="tilelang-linker-")
        atexit.register(shutil.rmtree, os.environ["COMPILER_PATH"], ignore_errors=True)
        os.symlink(gold, os.path.join(os.environ["COMPILER_PATH"], "ld"))
        linking = (os.environ.get("CXX", "g++"), "-shared", "-xc++", os.devnull, "-o", os.devnull)
        if subprocess.run(linking, capture_output=True, check=False).returncode:  # of another installation than GCC
            del os.environ["COMPILER_PATH"]
# threads of OpenMP that wait for the next kernel sleep: by default they compute for another ten milliseconds per call
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
for _name in ("TILELANG_DEFAULT_TARGET", "TILELANG_EXECUTION_BACKEND", "TILELANG_DISABLE_CACHE"):
    os.environ.pop(_name, None)
HAS_GPU = bool(import_module("tilelang.targets.nvidia.present_device").present_arch())
if HAS_GPU:  # tests of the CPU mean it; those of the device name it
    os.environ["TILELANG_DEFAULT_TARGET"] = "cpu"

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile(
    "ci", max_examples=25, derandomize=True, deadline=None, database=None, suppress_health_check=_QUIET
)
settings.register_profile("nightly", max_examples=500, deadline=None, suppress_health_check=_QUIET)
_PROFILE = os.environ.get("TILELANG_HYPOTHESIS_PROFILE", "ci")
settings.load_profile(_PROFILE)
# constants of the modules that a worker has imported are not drawn: programs would depend on the order of tests, and
# reading them takes five seconds; Hypothesis has no option for it
if _PROFILE == "ci":
    with contextlib.suppress(ImportError):
        _PROVIDERS = import_module("hypothesis.internal.conjecture.providers")
        _PROVIDERS._get_local_constants = lambda: _PROVIDERS._local_constants


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pure", action="store_true", help="skip tests where they compile, start a process or simulate a GPU")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """What holds for every test; a hook, since fixtures for twenty thousand tests take seconds.

    Random numbers are the same every time. An error without a place of its own names the line that called, which in tests
    is the test itself: whole messages are easier to compare without it; a test that wants it asks for `calling_line`.
    """
    np.random.seed(0)
    with pytest.MonkeyPatch.context() as patch:
        if item.config.getoption("--pure"):
            _refuse_what_is_slow(patch)
        patch.setenv("TILELANG_CHECK", str(int(_verifies_after_every_pass(item))))
        if not _compiles_as_for_users(item):
            flags = import_module("tilelang.targets.cpu.runtime.host_compiler")
            patch.setattr(flags, "_FLAGS", (*flags._FLAGS, "-O0"))
        if "calling_line" not in _fixtures(item):
            patch.setattr(import_module("tilelang.errors"), "calling_line", lambda: None)
        return (yield)


# what is about the machine code of the CPU, or compiles in one process for another
_COMPILED = {"codegen", "cpu", "jit", "performance", "runtime", "tools"}


def _compiles_as_for_users(item: pytest.Item) -> bool:
    """Whether C++ is optimized as for users, which takes twice as long as without the optimizer.

    It is where that is what tests are about, where they ask for `optimized_cpp`, and in one of eight others.
    """
    return bool(_COMPILED & {*item.path.parts}) or "optimized_cpp" in _fixtures(item) or _is_sampled(item, 8)


def _verifies_after_every_pass(item: pytest.Item) -> bool:
    """Whether programs are verified after every pass: in tests of passes, or that patch them, and in one of four others."""
    return "passes" in item.path.parts or "monkeypatch" in _fixtures(item) or _is_sampled(item, 4)


def _is_sampled(item: pytest.Item, every: int) -> bool:
    """Whether a test is one in so many, and all with TILELANG_SLOW_TESTS; TILELANG_SAMPLE takes the next one, run by run."""
    if os.environ.get("TILELANG_SLOW_TESTS"):
        return True
    return zlib.crc32(item.nodeid.encode()) % every == int(os.environ.get("TILELANG_SAMPLE", "0")) % every


def _fixtures(item: pytest.Item) -> Collection[str]:
    return getattr(item, "fixturenames", ())


def _refuse_what_is_slow(patch: pytest.MonkeyPatch) -> None:
    """With `--pure`, a test that gets to one of these ends there: what is left takes two cores less than two minutes."""

    def refuse(*_: Any, **__: Any) -> None:
        pytest.skip("needs a compiler, a process or a simulated GPU")

    make_runner = import_module("tilelang.jit.kernel").make_runner

    def only_by_reference(*args: Any) -> Any:
        return make_runner(*args) if args[-1] == "reference" else refuse()

    patch.setattr("tilelang.jit.kernel.make_runner", only_by_reference)
    patch.setattr("tilelang.sim.run.Simulation.__init__", refuse)
    patch.setattr("tilelang.targets.nvidia.runtime.nvrtc.Nvrtc.compile", refuse)
    patch.setattr(subprocess, "Popen", refuse)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Spares the garbage collector tests and modules, which stay until the end, and runs it once in 400,000 objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(400_000)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a sweep one test in 32 runs, or one in as many as its mark says, unless TILELANG_SLOW_TESTS asks for all.

    It begins with the first, or with that of the number in TILELANG_SAMPLE: who counts on from run to run has run all.
    Each mark counts on its own, so that a file run alone runs what it does among all others.
    """
    if not HAS_GPU:
        _leave_out(config, items, _repeated_on_a_gpu(items))
    if not os.environ.get("TILELANG_SLOW_TESTS"):
        _leave_out(config, items, _beyond_the_samples(items))


def _leave_out(config: pytest.Config, items: list[pytest.Item], left_out: set[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def _repeated_on_a_gpu(items: list[pytest.Item]) -> set[pytest.Item]:
    """Tests of a GPU besides the first of each file, which is skipped and says why: those are thousands."""
    files: set[str] = set()
    found: set[pytest.Item] = set()
    for item in items:
        if "device" in item.path.parts:
            file = str(item.path)
            if file in files:
                found.add(item)
            files.add(file)
    return found


def _beyond_the_samples(items: list[pytest.Item]) -> set[pytest.Item]:
    sweeps: dict[int, tuple[int, list[pytest.Item]]] = {}
    for item in items:
        if mark := item.get_closest_marker("slow"):
            sweeps.setdefault(id(mark), (mark.kwargs.get("every", 32), []))[1].append(item)
    left_out: set[pytest.Item] = set()
    for every, sweep in sweeps.values():
        first = int(os.environ.get("TILELANG_SAMPLE", "0")) % min(every, len(sweep))
        left_out.update(item for number, item in enumerate(sweep) if number % every != first)
    return left_out


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not os.environ.get("TILELANG_SLOW_TESTS"):
        terminalreporter.write_line("samples of sweeps ran; TILELANG_SLOW_TESTS=1 runs all of them")


@pytest.fixture
def calling_line() -> None:
    """Lets errors without a place of their own name the line of the test that called."""


@pytest.fixture
def optimized_cpp() -> None:
    """Lets C++ be compiled as for users, where a test computes so much that the optimizer saves time."""
