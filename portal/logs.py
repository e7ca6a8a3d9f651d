"""What goes into the logs: errors with their tracebacks, and no secret in them.

The desk writes none on purpose. But libraries put into the messages of their errors what they were given, so
every line is looked over once more before it is written.
"""

import json
import logging
import re
from collections.abc import ItemsView
from datetime import UTC, datetime
from types import FrameType
from typing import Any

from django.http import HttpRequest
from django.views.debug import SafeExceptionReporterFilter

from portal import work_ids

HIDDEN = "[hidden]"

NAMES = (
    *("client-key-data", "client-certificate-data", "client_secret", "refresh_token", "id_token"),
    *("access_token", r"password\d?", "secret", "token", "sessionid", "csrftoken"),
)
# The whole of a match is hidden, or only its group "secret".
SECRETS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        # Our own tokens: of persons and of nodes.
        r"\b(?:cdesk|cdnode)_[A-Za-z0-9_-]{8,}",
        r"\b(?:Bearer|Basic|Token)\s+(?P<secret>[A-Za-z0-9._~+/=-]{8,})",
        # JSON Web Tokens: of service accounts and identity providers.
        r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*",
        r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----.*?(?:-----END (?:[A-Z]+ )*PRIVATE KEY-----|$)",
        # In kubeconfigs, forms and query strings: name, colon or equals sign, value.
        rf"(?:{'|'.join(NAMES)})[\"']?\s*[:=]\s*[\"']?(?P<secret>[^\s\"',;&}}]{{4,}})",
        # In addresses of databases, brokers and proxies.
        r"\b[a-z][a-z0-9+.-]*://[^\s:/@]*:(?P<secret>[^\s/@]+)@",
    )
)


def redacted(text: str) -> str:
    """The text with everything hidden that looks like a secret."""
    for pattern in SECRETS:
        text = pattern.sub(_hide, text)
    return text


def _hide(match: "re.Match[str]") -> str:
    secret = match.groupdict().get("secret")
    if secret is None:
        return HIDDEN
    start, end = match.span("secret")
    whole = match.group()
    return whole[: start - match.start()] + HIDDEN + whole[end - match.start() :]


class RedactingFormatter(logging.Formatter):
    """Formats a record with its traceback and the ids of what it belongs to, then hides what looks like a
    secret."""

    def format(self, record: logging.LogRecord) -> str:
        ids = work_ids.current()
        record.ids = f" [{' '.join(f'{name}={value}' for name, value in ids.items())}]" if ids else ""
        return redacted(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object a line, for collectors of logs: `time` (UTC), `level`, `logger`, `message`, the ids of
    what it belongs to, what the line tells in fields (`told`), and `error` with a traceback. Without secrets.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": redacted(record.getMessage()),
            **work_ids.current(),
        }
        for name, value in getattr(record, "told", {}).items():
            line[name] = redacted(value) if isinstance(value, str) else value
        if record.exc_info:
            line["error"] = redacted(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False, default=str)


class WithoutValues(SafeExceptionReporterFilter):
    """Reports about errors (mails, services that collect them) name variables and fields but tell none of
    their values: libraries hold passwords and kubeconfigs in variables of any name. With DEBUG they do."""

    def get_traceback_frame_variables(
        self, request: HttpRequest | None, tb_frame: FrameType | None
    ) -> ItemsView[str, Any]:
        found = dict(super().get_traceback_frame_variables(request, tb_frame))
        return (dict.fromkeys(found, self.cleansed_substitute) if self.is_active(request) else found).items()

    def get_post_parameters(self, request: HttpRequest | None) -> dict[str, Any]:
        found = super().get_post_parameters(request)
        return dict.fromkeys(found, self.cleansed_substitute) if self.is_active(request) else found
