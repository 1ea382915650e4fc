"""Logging to stderr, as text for people or JSON for collectors."""

from __future__ import annotations

import logging
import sys

import structlog


def configure(level: str, format_: str) -> None:
    """level: debug, info, warning, error; format_: text, json. Other packages' logs pass at
    warning and above, through the same lines."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: structlog.typing.Processor
    if format_ == "json":
        shared.append(structlog.processors.format_exc_info)
        last = structlog.processors.JSONRenderer()
    else:
        # The default traceback shows local variables, and those may hold credentials.
        plain = structlog.dev.plain_traceback
        last = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
            foreign_pre_chain=shared,
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("kbind").setLevel(level.upper())
