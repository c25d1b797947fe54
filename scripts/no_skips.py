"""Fail when a JUnit report is missing, or empty, or holds a skipped test: what was skipped was not tested."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree


def faults(report: Path) -> list[str]:
    """Return what is wrong with one report."""
    if not report.exists():
        return [f"{report}: missing"]
    cases = list(ElementTree.parse(report).iter("testcase"))  # noqa: S314 - our own pytest wrote it
    skipped = [case for case in cases if case.find("skipped") is not None]
    found = [f"{report}: {case.get('classname')}.{case.get('name')} was skipped" for case in skipped]
    return found if cases else [f"{report}: no test ran"]


def main() -> int:
    """Print the faults of all reports named on the command line."""
    found = [fault for name in sys.argv[1:] for fault in faults(Path(name))]
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
