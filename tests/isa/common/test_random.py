import numpy as np

from tilelang.isa.common.random import MRG32K3A_START, PHILOX, XORWOW_START, philox_block


def test_philox_has_the_known_answers_of_its_authors():
    # Source: Random123, tests/kat_vectors, "philox4x32 10": counter, key and answer
    vectors = (
        ([0] * 4, [0] * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    )
    for counter, key, answer in vectors:
        words = [[np.asarray(word, np.uint64) for word in given] for given in (counter, key)]
        assert answer == tuple(map(int, philox_block(*words)))


def test_philox_gives_the_words_of_a_block_in_order_whatever_the_upper_halves_are():
    seed, sequence = 0x299F31D0A4093822, 0x0370734413198A2E
    words = [np.uint64(w) for w in (0x3F6A88 << 2 & 0xFFFFFFFF, 5, 0x13198A2E, 0x03707344)]
    block = philox_block(words, [np.uint64(0xA4093822), np.uint64(0x299F31D0)])
    position = (int(words[0]) | 5 << 32) * 4
    drawn = PHILOX.meaning(np.uint64(seed), np.uint64(sequence), np.uint64(position) + np.arange(4, dtype=np.uint64))
    assert list(map(int, block)) == drawn.tolist()


def test_starts_are_computed_per_lane():
    offsets = np.array([0, 1, 2**63], np.uint64)
    for start in (XORWOW_START, MRG32K3A_START):
        together = start.meaning(7, 1, offsets, 2)
        assert [int(start.meaning(7, 1, offset, 2)) for offset in offsets] == together.tolist()
