import pytest

from tilelang.errors import NoLowering, OptionError
from tilelang.target import Target, parse_execution_backend, parse_target


@pytest.mark.parametrize(
    "given", ["auto", None, "cpu", "c", "llvm", {"kind": "cpu"}, '{"kind": "llvm"}', Target("cpu")]
)
def test_every_spelling_of_the_cpu_means_the_cpu(given: object) -> None:
    assert Target("cpu") == parse_target(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["c", '{"kind": "cpu", "arch": "native"}', "auto"])
def test_the_environment_gives_the_default(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", text)
    assert Target("cpu") == parse_target(None)


def test_an_argument_beats_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cuda")
    assert Target("cpu") == parse_target("cpu")
    with pytest.raises(NoLowering, match="TILELANG_DEFAULT_TARGET: 'cuda' is not available"):
        parse_target("auto")


@pytest.mark.parametrize("given", ["cuda", "hip", {"kind": "cuda", "arch": "sm_90a"}, "cuda -arch=sm_90a"])
def test_targets_of_other_versions_say_what_to_write(given: object) -> None:
    with pytest.raises(NoLowering) as caught:
        parse_target(given)  # type: ignore[arg-type]
    assert "write target='cpu', or target='auto' to take the best target present" == caught.value.hint


def test_the_message_for_a_gpu_is_whole() -> None:
    with pytest.raises(NoLowering) as caught:
        parse_target("cuda")
    assert (
        "target: 'cuda' is not available; this version compiles for the CPU only\n"
        "hint: write target='cpu', or target='auto' to take the best target present"
    ) == str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("cpi", "target: unknown name 'cpi'\nhint: did you mean 'cpu'?"),
        (7, "target: expected a name or a mapping with 'kind', got 7\n"
            "hint: write target='cpu' or target={'kind': 'cpu'}"),
        ({"arch": "x"}, "target: {'arch': 'x'} has no 'kind'\nhint: write {'kind': 'cpu'}"),
        ({"kind": "cpu", "speed": 9}, "target: unknown field 'speed' in {'kind': 'cpu', 'speed': 9}\n"
                                      "hint: the fields are 'kind' and 'arch'"),
        ({"kind": "cpu", "arch": "486"}, "target: unknown arch '486' of 'cpu'\n"
                                         "hint: leave 'arch' out; 'native' is the only one"),
        ("{kind", "target: '{kind' is not valid JSON: Expecting property name enclosed in double quotes: "
                  "line 1 column 2 (char 1)\nhint: write '{\"kind\": \"cpu\"}'"),
    ],
)  # fmt: skip
def test_a_target_that_means_nothing_is_refused(given: object, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_target(given)  # type: ignore[arg-type]
    assert message == str(caught.value)


def test_a_target_reads_as_its_kind() -> None:
    assert "cpu" == str(Target("cpu"))


@pytest.mark.parametrize(
    ("given", "expected"), [("auto", "cc"), (None, "cc"), ("cc", "cc"), ("reference", "reference")]
)
def test_execution_backends(given: str | None, expected: str) -> None:
    assert expected == parse_execution_backend(given)


def test_the_environment_gives_the_default_execution_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_EXECUTION_BACKEND", "reference")
    assert "reference" == parse_execution_backend("auto")
    assert "cc" == parse_execution_backend("cc")


@pytest.mark.parametrize("given", ["simulator", "nvrtc", "nvcc"])
def test_execution_backends_of_other_targets_say_what_to_write(given: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_execution_backend(given)
    assert (
        f"execution_backend: '{given}' does not run on the CPU target\n"
        "hint: write 'cc' for compiled code, 'reference' for the interpreter, or 'auto'"
    ) == str(caught.value)


def test_an_unknown_execution_backend_names_the_nearest() -> None:
    with pytest.raises(OptionError) as caught:
        parse_execution_backend("referense")
    assert "execution_backend: unknown name 'referense'\nhint: did you mean 'reference'?" == str(caught.value)
