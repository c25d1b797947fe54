"""README promises only what a test shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent.parent
ROW = re.compile(r"^\| (?P<what>[^|]+) \| (?P<today>yes|not yet[^|]*) \| (?P<test>[^|]*) \|$", re.MULTILINE)
TEST = re.compile(r"`(?P<file>tests/\S+\.py)::(?P<name>test_\w+)`")


def rows() -> list[re.Match[str]]:
    """Return the rows of README's table."""
    return list(ROW.finditer((TOP / "README.md").read_text()))


def test_the_table_is_read() -> None:
    """The table has rows of both kinds, so that the checks below look at something."""
    assert {row["today"].split()[0] for row in rows()} == {"yes", "not"}


@pytest.mark.parametrize(
    "row", [row for row in rows() if row["today"] == "yes"], ids=lambda row: row["what"].strip()
)
def test_what_works_has_its_test(row: re.Match[str]) -> None:
    """Each row that says yes names a test that exists."""
    named = TEST.search(row["test"])
    assert named, f"no test is named in: {row[0]}"
    assert f"def {named['name']}(" in (TOP / named["file"]).read_text()
