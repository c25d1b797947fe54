"""One line per event on stderr: JSON for machines, columns for a person at a terminal.

The trap: libraries log whole response bodies at debug (the Kubernetes client does, tokens included), and
pretty tracebacks show local variables. So libraries are heard from WARNING on whatever our level is, and
tracebacks are plain.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from typing import TextIO

    from structlog.typing import Processor

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("auto", "json", "text")
"""`auto` is text on a terminal and JSON elsewhere."""


def configure_logs(level: str, form: str, stream: TextIO = sys.stderr) -> None:
    """Send our events from `level` on, and the libraries' from WARNING on, to `stream` in one form."""
    text = form == "text" or (form == "auto" and stream.isatty())
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    render = _text(stream) if text else _json()
    structlog.configure(
        processors=[*shared, *render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def _json() -> list[Processor]:
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _text(stream: TextIO) -> list[Processor]:
    return [
        structlog.dev.ConsoleRenderer(
            colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    ]
