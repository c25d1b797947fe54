"""Which code a domain error becomes."""

from __future__ import annotations

import inspect

import grpc
import pytest

from csi import errors
from csi.rpc.status import CODES, code_of, go_name

DOMAIN_ERRORS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.CsiError) and kind is not errors.CsiError
]


class OutOfMarbles(errors.Exhausted):
    """A domain error that the table does not know."""


@pytest.mark.parametrize("kind", DOMAIN_ERRORS)
def test_every_domain_error_has_its_line(kind: type[errors.CsiError]) -> None:
    """Each domain error stands in the table, reachable, and none means UNKNOWN."""
    wanted = dict(CODES)[kind]
    assert code_of(kind("why")) is wanted
    assert wanted is not grpc.StatusCode.UNKNOWN


def test_a_subclass_has_its_parents_code() -> None:
    """A refinement of a domain error is answered as its parent, not as a fault."""
    assert code_of(OutOfMarbles("none left")) is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (grpc.StatusCode.OK, "OK"),
        (grpc.StatusCode.CANCELLED, "Canceled"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "DeadlineExceeded"),
        (grpc.StatusCode.INTERNAL, "Internal"),
    ],
)
def test_codes_are_spelled_as_go_does(code: grpc.StatusCode, name: str) -> None:
    """Metrics name codes as grpc-go's String() does."""
    assert go_name(code) == name
