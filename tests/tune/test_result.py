from hypothesis import given
from hypothesis import strategies as st

from tilelang.tune.result import (
    Measurement,
    Rejection,
    SearchResult,
    TuningResult,
    from_json,
    grouped,
    nothing_found,
    to_json,
)

CONFIGS = [{"block": 8}, {"block": 16}, {"block": 32, "pass_configs": {"tl.stages": 2}}, {"block": 64}]
FOUND = SearchResult(
    "scale",
    "a machine",
    (Measurement(CONFIGS[1], 0.5, 1.0, 5), Measurement(CONFIGS[0], 1.25, 2.4, 1)),
    (
        Rejection(CONFIGS[2], "compile", "shared memory: too much", "shared memory: too much\nhint: less"),
        Rejection(CONFIGS[3], "compile", "shared memory: too much"),
    ),
    0.75,
    "the reference 'ref'",
    2.5,
)


def test_a_report_names_every_configuration() -> None:
    assert (
        "scale on a machine: 2 of 4 configurations measured in 2.5 s\n"
        "results compared with the reference 'ref'\n"
        "      0.5000 ms   1.00x  block=16\n"
        "      1.2500 ms   2.40x  block=8\n"
        "      0.7500 ms  the reference\n"
        "2 failed to compile: shared memory: too much\n"
        "  block=32, pass_configs={'tl.stages': 2}\n"
        "  block=64"
    ) == FOUND.report()


def test_a_report_lists_duplicates() -> None:
    rejected = tuple(Rejection(CONFIGS[n], "same", f"the same code as block={n}") for n in (0, 1))
    assert (
        "scale on a machine: 0 of 2 configurations measured in 0.0 s\n"
        "2 compile to the same code as another one:\n"
        "  block=8: the same code as block=0\n"
        "  block=16: the same code as block=1"
    ) == SearchResult("scale", "a machine", (), rejected).report()


def test_a_result_has_the_fastest_kernel() -> None:
    result = TuningResult("scale", "a machine", FOUND.measured, (), 0.75)
    assert ({"block": 16}, 0.5, 0.75) == (result.config, result.latency, result.ref_latency)
    assert "TuningResult(block=16: 0.5000 ms)" == repr(result)
    assert "block=64: too slow" == str(Rejection(CONFIGS[3], "slow", "too slow"))


def test_results_round_trip_through_json() -> None:
    assert FOUND == from_json(to_json(FOUND, CONFIGS), CONFIGS)


def test_a_record_can_be_read_by_people() -> None:
    assert [
        "{",
        '"name": "scale",',
        '"device": "a machine",',
        '"ref_latency": 0.75,',
        '"compared": "the reference \'ref\'",',
        '"seconds": 2.5,',
        '"configurations": [',
        '{"config": "block=8", "index": 0, "rank": 1, "latency": 1.25, "ratio": 2.4, "rounds": 1},',
        '{"config": "block=16", "index": 1, "rank": 0, "latency": 0.5, "ratio": 1.0, "rounds": 5},',
    ] == to_json(FOUND, CONFIGS).decode().splitlines()[:9]


@given(st.binary(max_size=40) | st.sampled_from([b"{}", b"[]", b'{"configurations": [{}]}', b'{"configurations": []}']))
def test_other_bytes_are_no_record(data: bytes) -> None:
    assert None is from_json(data, CONFIGS)


def test_a_record_of_other_configurations_is_none() -> None:
    data = to_json(FOUND, CONFIGS)
    assert None is from_json(data, CONFIGS[:2])
    assert None is from_json(data, CONFIGS[::-1])


def test_rejections_are_grouped_by_stage_and_reason() -> None:
    rejected = [
        Rejection({"x": 1}, "check", "wrong"),
        Rejection({"x": 2}, "compile", "a"),
        Rejection({"x": 3}, "compile", "b"),
        Rejection({"x": 4}, "compile", "b"),
    ]
    assert [("compile", "b"), ("compile", "a"), ("check", "wrong")] == list(grouped(rejected))


def test_the_error_without_valid_configurations_lists_the_reasons() -> None:
    rejected = [Rejection({"x": n}, "compile", "too large") for n in range(5)]
    rejected.append(Rejection({"x": 9}, "check", "'B': 3 of 4 elements differ"))
    assert (
        "autotune: none of 6 configurations of 'scale' can be used\n"
        "note: 5 failed to compile: too large (x=0; x=1; x=2; and 2 more)\n"
        "note: 1 gave wrong results: 'B': 3 of 4 elements differ (x=9)\n"
        "hint: call the function with one of these configurations to see the whole error"
    ) == str(nothing_found("scale", rejected))
