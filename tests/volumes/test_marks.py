"""Our annotations on claims."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from csi.controller.marks import (
    ATTACHED_TO,
    CLUSTER,
    Holder,
    Mark,
    change,
    mark_unmarked,
    moment_of,
    parse_holder,
    parse_mark,
    stamp,
)

NOON = datetime(2026, 8, 1, 12, 0, 0, tzinfo=UTC)
HOLDER = Holder("vm-a", "uid-a", NOON)


def test_a_mark_is_read_as_it_was_written() -> None:
    """Writing and reading are each other's inverse."""
    mark = Mark(cluster="c", request="r", asked="{}", fresh="never-attached", attached_to="")
    assert parse_mark(mark.annotations()) == mark


def test_a_claim_of_others_has_no_mark() -> None:
    """Nothing is read out of annotations that are not ours."""
    assert parse_mark({"example.org/attached-to": "x"}) == Mark()
    assert Mark().annotations() == {}


def test_only_the_empty_value_means_free() -> None:
    """Nobody holds a claim whose mark is empty; a claim without the mark says nothing."""
    assert Mark(attached_to="").holder is None
    assert Mark(attached_to=None).holder is None
    assert Mark(attached_to=str(HOLDER)).holder == HOLDER
    assert str(HOLDER) == "vm-a/uid-a/2026-08-01T12:00:00Z"


@pytest.mark.parametrize(
    "value", ["vm-a", "vm-a/uid-a", "vm-a/uid-a/yesterday", "/", "vm-a//2026-08-01T12:00:00Z"]
)
def test_an_unreadable_holder_still_holds(value: str) -> None:
    """A value that cannot be read is never taken for free; its age lets it be taken over after a look."""
    holder = parse_holder(value)
    assert holder is not None
    assert holder.machine == value
    assert holder.uid == ""
    assert holder.since < NOON


def test_times_are_read_with_their_zone_or_not_at_all() -> None:
    """A time without a zone could mean any hour."""
    east = timezone(timedelta(hours=2))
    assert stamp(NOON.astimezone(east)) == "2026-08-01T12:00:00Z"
    assert moment_of("2026-08-01T14:00:00+02:00") == NOON
    assert moment_of("2026-08-01T12:00:00") is None
    assert moment_of("never-attached") is None
    assert Mark(fresh="2026-08-01T12:00:00Z").fresh_until == NOON


def test_a_change_stands_on_the_old_value() -> None:
    """Of two who change a mark at once, one fails."""
    test, replace = change(ATTACHED_TO, "", str(HOLDER))
    path = "/metadata/annotations/companion.harvesterhci.io~1attached-to"
    assert test == {"op": "test", "path": path, "value": ""}
    assert replace == {"op": "replace", "path": path, "value": str(HOLDER)}


@pytest.mark.parametrize(
    ("annotations", "added"),
    [
        pytest.param({}, ("/metadata/annotations", {CLUSTER: "c"}), id="the-map-is-missing"),
        pytest.param(
            {"a": "b"},
            ("/metadata/annotations/companion.harvesterhci.io~1cluster", "c"),
            id="beside-others",
        ),
    ],
)
def test_an_unmarked_claim_is_marked_only_as_it_was_read(
    annotations: dict[str, str], added: tuple[str, object]
) -> None:
    """Annotations of others are kept, and a claim that changed since is not marked."""
    test, add = mark_unmarked("41", annotations, {CLUSTER: "c"})
    assert test == {"op": "test", "path": "/metadata/resourceVersion", "value": "41"}
    assert add == {"op": "add", "path": added[0], "value": added[1]}
