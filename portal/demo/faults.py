"""Faults on purpose, for tests of clients: refusals, delays, watches that break in the middle of a line."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from portal.demo import errors


@dataclass
class Faults:
    """What goes wrong next. Each entry is used up by one request (or one watch write).

    ``answers``: status codes that the next requests get (429 comes with Retry-After).
    ``delay_seconds``: how long every request waits. ``cut_watches``: how many watch writes
    are cut in mid-line.
    ``path_prefix`` limits faults to requests whose path starts so.
    """

    answers: list[int] = field(default_factory=list)
    retry_after_seconds: int = 1
    delay_seconds: float = 0.0
    cut_watches: int = 0
    path_prefix: str = ""

    def set(self, wanted: dict[str, Any]) -> None:
        """Replace all settings; 400 for one that is not known or of another type."""
        fresh = Faults()
        for name, value in wanted.items():
            if name not in self.__dataclass_fields__ or not isinstance(
                value, type(getattr(fresh, name)) | int
            ):
                raise errors.bad_request(f"unknown fault or wrong type: {name}")
            setattr(fresh, name, value)
        self.__dict__.update(fresh.__dict__)

    async def before(self, path: str) -> None:
        """Delay or refuse a request."""
        if not path.startswith(self.path_prefix):
            return
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
        if self.answers:
            code = self.answers.pop(0)
            if code == 429:
                raise errors.too_many_requests(self.retry_after_seconds)
            raise errors.ApiError(
                code, "InternalError" if code == 500 else "ServiceUnavailable", "fault on purpose"
            )

    async def write(self, response: web.StreamResponse, lines: bytes) -> None:
        """Write to a watch, or break it off within the last line."""
        if self.cut_watches > 0:
            self.cut_watches -= 1
            await response.write(lines[: len(lines) - 10])
            raise ConnectionResetError("watch cut on purpose")
        await response.write(lines)
