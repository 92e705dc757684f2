"""Computations are a third as long as their Level 2 programs, or less."""

from examples_of import benchmark_programs


def test_lines_of_programs() -> None:
    lines = benchmark_programs("level1_lines")
    long = [row for row in lines.counted() if row["ratio"] > lines.GOAL]
    assert not long


def test_what_counts_as_a_line() -> None:
    lines_of = benchmark_programs("level1_lines").lines_of
    assert 3 == lines_of('"""Text.\n\nMore."""\nimport x\n\n\n@f\ndef g(a):\n    # why\n    return a\n')
