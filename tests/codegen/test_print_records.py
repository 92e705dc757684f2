"""The text that records of printing kernels mean."""

import struct

from tilelang.codegen.print_records import KIND_BITS, Kind, printed_texts


def record(kind: Kind, value: int = 0, writer: int = 0) -> list[int]:
    return [writer << KIND_BITS | kind, 0, value]


def text(part: bytes, writer: int = 0) -> list[int]:
    return record(Kind.TEXT, *struct.unpack("<Q", part.ljust(8, b"\0")), writer)


def bits(number: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", number))[0]


def test_values_are_printed_as_the_interpreter_does():
    words = [
        *text(b"x = "), *record(Kind.FLOAT, bits(0.1)), *text(b", "), *record(Kind.FLOAT, bits(-float("nan"))), *text(b", "),
        *record(Kind.TRUTH, 1), *text(b", "), *record(Kind.SIGNED, 2**64 - 5), *text(b", "),
        *record(Kind.UNSIGNED, 2**64 - 1), *text(b"\n"), *record(Kind.END),
    ]  # fmt: skip
    assert ["x = 0.1, nan, True, -5, 18446744073709551615\n"] == printed_texts(words)


def test_a_text_may_be_longer_than_a_record_and_not_of_ascii():
    encoded = "größer als 8".encode()
    words = [word for at in range(0, len(encoded), 8) for word in text(encoded[at : at + 8])]
    assert ["größer als 8"] == printed_texts([*words, *record(Kind.END)])


def test_statements_of_threads_do_not_mix_and_incomplete_ones_are_left_out():
    words = [*text(b"a", 1), *text(b"b", 2), *text(b"A", 1), *text(b"c", 3), *record(Kind.END, 0, 2),
             *record(Kind.END, 0, 1), *text(b"d", 1), *record(Kind.END, 0, 1)]  # fmt: skip
    assert ["b", "aA", "d"] == printed_texts(words)
