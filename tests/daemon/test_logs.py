"""What reaches the log, and in which form."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import logging, structlog
from daemon.logs import configure_logs
configure_logs("{level}", "{form}")
log = structlog.get_logger()
log.debug("found", disk="sda")
log.info("mounted", disk="sdb")
logging.getLogger("library").debug("response body: token")
logging.getLogger("library").warning("pool is full")
try:
    secret = "canary"
    raise ValueError("no")
except ValueError:
    log.exception("failed")
"""


def output(level: str, form: str) -> str:
    """Return what the program above logs; the logging set-up of a process is its own."""
    program = PROGRAM.format(level=level, form=form)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr


def test_json_has_one_object_per_line() -> None:
    """Away from a terminal every event, a library's too, is one JSON object on one line."""
    events = [json.loads(line) for line in output("info", "auto").splitlines()]
    assert [event["event"] for event in events] == ["mounted", "pool is full", "failed"]
    assert events[0]["disk"] == "sdb"
    assert events[0]["level"] == "info"
    assert events[1]["logger"] == "library"
    assert "ValueError: no" in events[2]["exception"]


def test_debug_shows_our_debug_events_only() -> None:
    """A library's debug lines, which may hold tokens, stay out even at debug."""
    text = output("debug", "json")
    assert "found" in text
    assert "token" not in text


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_traceback_shows_no_local_variables(form: str) -> None:
    """What a variable held when an error came never reaches the log."""
    text = output("info", form)
    assert "ValueError: no" in text
    assert "canary" not in text
