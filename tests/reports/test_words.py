"""Numbers and names as text. Right values by hand."""

import pytest

from presil.reports.words import breakable, day, digits, label, listed, percent, plain, plural, quantity, times, whole


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1, "1.00"),
        (9.994, "9.99"),
        (9.996, "10.0"),
        (99.96, "100"),
        (1234, "1,230"),
        (0.012345, "0.0123"),
        (-2.5, "-2.50"),
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "–"),
    ],
)
def test_three_significant_digits(value, text):
    assert digits(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (34e9, "B/s", "34 GB/s"),
        (91.75e12, "op/s", "91.8 Top/s"),
        (999.6e6, "Hz", "1 GHz"),
        (999.4e6, "Hz", "999 MHz"),
        (1.927e-6, "s", "1.93 µs"),
        (1e-10, "s", "0.1 ns"),
        (5.0, "s", "5 s"),
        (700e6, "Hz", "700 MHz"),
        (0, "s", "0 s"),
        (None, "s", "–"),
    ],
)
def test_si_prefixes(value, unit, text):
    assert quantity(value, unit) == text


def test_counts_shares_and_ratios():
    assert whole(1234567.4) == "1,234,567"
    assert percent(0.5) == "50.0%"
    assert times(2.405) == "2.40×"
    assert plural(1, "layer") == "1 layer"
    assert plural(2000, "layer") == "2,000 layers"


def test_lists():
    assert [listed(x) for x in ((), ("a",), ("a", "b"), ("a", "b", "c"))] == ["none", "a", "a and b", "a, b and c"]


def test_dates():
    assert day("2026-12-01T04:12:31+00:00") == "1 December 2026, 04:12 UTC"
    assert day("") == "–"
    assert day("yesterday") == "yesterday"


def test_what_no_font_has_is_spelled_out():
    assert plain("a漢\x00µ×") == "a\\u{6F22}\\u{0000}µ×"


def test_numbers_are_never_broken():
    assert breakable("1,234,567") == "1,234,567"


def test_long_words_may_be_broken_and_nothing_else_changes():
    text = "conv2d:n=1,h=7 " + "x" * 50
    assert breakable(text).replace("\u200b", "") == text
    assert max(len(part) for part in breakable(text).split("\u200b")) <= 25
    assert label("x" * 50, 10) == "x" * 9 + "…"
