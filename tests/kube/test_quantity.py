"""Quantities of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.quantity import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("quantity", "count"),
    [
        ("10737418240", 10 * 2**30),
        ("10Gi", 10 * 2**30),
        ("1.5Gi", 3 * 2**29),
        ("10G", 10**10),
        ("1k", 1000),
        ("1E", 10**18),
        ("1E3", 1000),
        ("1e3", 1000),
        ("12e-1", 2),
        ("1500m", 2),
        ("1n", 1),
        (".5Ki", 512),
        ("5.", 5),
        ("0", 0),
    ],
)
def test_a_quantity_means_bytes(quantity: str, count: int) -> None:
    """Each suffix of the API, and fractions rounded up."""
    assert parse_bytes(quantity) == count


@pytest.mark.parametrize(
    "text", ["", "None", "1 Gi", "Gi", "-1", "1GiB", "0x10", "1e999", ".", "1\n", "\u0661"]
)
def test_what_is_no_quantity(text: str) -> None:
    """Anything else reads as none, and never takes long."""
    assert parse_bytes(text) is None


@given(st.integers(0, 2**63 - 1))
def test_bytes_are_read_as_they_were_written(count: int) -> None:
    """Writing loses nothing."""
    assert parse_bytes(format_bytes(count)) == count


def test_bytes_are_written_for_people() -> None:
    """The largest suffix that divides."""
    assert format_bytes(10 * 2**30) == "10Gi"
    assert format_bytes(1026 * 2**20) == "1026Mi"
    assert format_bytes(1000) == "1000"
    assert format_bytes(0) == "0"
