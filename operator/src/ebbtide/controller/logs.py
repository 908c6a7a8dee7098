"""How the operator logs: plain lines for people, JSON lines for machines."""

import json
import logging
import sys
from typing import Any

from typing_extensions import override

_PLAIN = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class _JsonFormatter(logging.Formatter):
    """One object per line."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up(*, as_json: bool, verbose: bool) -> None:
    """Log to standard error; libraries only what is wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if as_json else logging.Formatter(_PLAIN))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("ebbtide").setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # It reports each retried request on its own; the handlers' last word is enough.
    logging.getLogger("kopf.objects").setLevel(logging.ERROR)
    # It warns that it handles no signals in a thread: it must not.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
