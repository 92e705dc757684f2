"""Copies of pipelined loops stand ahead of everything, or behind the last users of the tiles they fill."""

from tilelang.schedule.copy_placement import ahead, behind_readers


def test_copies_run_ahead_of_the_other_statements():
    made = ahead([1, 2], [], [], 4, 3)
    assert ((2, 0, 0, 2), (2, 0, 1, 3), 2) == (made.stage, made.order, made.last)


def test_copies_follow_what_empties_their_tiles_at_the_beginning():
    made = ahead([0], [1], [], 3, 2)
    assert ((0, 2, 2), (1, 0, 2)) == (made.stage, made.order)


def test_copies_stand_behind_the_last_users_of_their_tiles():
    made = behind_readers({0: {2}, 3: {4}}, {2, 4}, 6, 2)
    assert ((0, 2, 2, 0, 2, 2), (2, 0, 1, 4, 3, 5)) == (made.stage, made.order)


def test_tiles_that_all_products_use_are_not_filled_early():
    assert behind_readers({0: {2}, 1: {2}}, {2}, 3, 2) is None
    assert behind_readers({0: {2, 4}, 3: {4}}, {2, 4}, 5, 2) is None


def test_tiles_that_no_product_uses_are_not_filled_early():
    assert behind_readers({0: {2}, 1: {3}}, {2, 4}, 5, 2) is None


def test_tiles_that_are_used_before_they_are_filled_are_not_filled_late():
    assert behind_readers({1: {0, 2}, 3: {4}}, {2, 4}, 5, 2) is None


def test_what_copies_need_is_fetched_behind_the_copies_of_the_iteration_before():
    made = ahead([1], [], [0], 3, 2)
    assert ((0, 1, 2), (1, 0, 2)) == (made.stage, made.order)
    made = ahead([1], [2], [0], 4, 2)
    assert ((0, 1, 3, 3), (2, 1, 0, 3)) == (made.stage, made.order)
