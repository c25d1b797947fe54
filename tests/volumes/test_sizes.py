"""Sizes of claims."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csi.controller.sizes import DEFAULT, SMALLEST, UNIT, size_for
from csi.errors import CsiError, InvalidArgument, OutOfRange
from tests.volumes.shapes import GIB, MIB


@pytest.mark.parametrize(
    ("required", "limit", "size"),
    [
        pytest.param(10 * GIB, 0, 10 * GIB, id="what-fits-is-kept"),
        pytest.param(10 * GIB, 10 * GIB, 10 * GIB, id="required-may-equal-the-limit"),
        pytest.param(GIB + 1, 0, GIB + 2 * MIB, id="rounded-up-to-2-MiB"),
        pytest.param(1, 0, 10 * MIB, id="at-least-10-MiB"),
        pytest.param(0, 0, GIB, id="nothing-said"),
        pytest.param(0, 100 * MIB, 100 * MIB, id="a-limit-below-the-default"),
        pytest.param(0, 100 * MIB + 1, 100 * MIB, id="rounded-down-below-a-limit-alone"),
        pytest.param(0, 5 * GIB, GIB, id="a-limit-above-the-default"),
        pytest.param(10 * MIB + 1, 12 * MIB, 12 * MIB, id="rounded-up-to-the-limit"),
    ],
)
def test_the_size_asked_of_the_host(required: int, limit: int, size: int) -> None:
    """A size is rounded up to what the host gives, inside the range."""
    assert size_for(required, limit) == size


@pytest.mark.parametrize(
    ("required", "limit", "error"),
    [
        pytest.param(-1, 0, InvalidArgument, id="negative"),
        pytest.param(0, -1, InvalidArgument, id="negative-limit"),
        pytest.param(2 * GIB, GIB, OutOfRange, id="more-than-the-limit"),
        pytest.param(GIB + 1, GIB + 2, OutOfRange, id="no-unit-in-the-range"),
        pytest.param(1, 5 * MIB, OutOfRange, id="a-limit-below-the-smallest"),
        pytest.param(0, 5 * MIB, OutOfRange, id="a-limit-alone-below-the-smallest"),
        pytest.param(0, 1, OutOfRange, id="a-limit-below-a-unit"),
        pytest.param(2**63 - 1, 0, OutOfRange, id="rounding-leaves-the-wire's-integers"),
    ],
)
def test_a_size_that_cannot_be_given(required: int, limit: int, error: type[CsiError]) -> None:
    """A range without a size in it is refused before the host is asked."""
    with pytest.raises(error):
        size_for(required, limit)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_a_size_lies_in_its_range(required: int, limit: int) -> None:
    """Never less than required, never more than the limit, always a multiple of the host's unit."""
    try:
        size = size_for(required, limit)
    except OutOfRange:
        assert limit < SMALLEST or limit - required < UNIT or required > limit or required > 2**63 - UNIT
        return
    assert required <= size <= (limit or 2**63 - 1)
    assert size % UNIT == 0
    assert size >= SMALLEST
    assert required or size <= DEFAULT
