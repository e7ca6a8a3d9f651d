"""Collecting what is wrong with an object, field by field, worded as the API server words it."""

import json
from collections.abc import Iterable
from typing import Any

from portal.demo.errors import Cause

_LONGEST_SHOWN = 300


class Report:
    """The broken rules of one object. Fields are named by path, as ``spec.devices.requests[0].name``."""

    def __init__(self) -> None:
        self.causes: list[Cause] = []

    def required(self, path: str, why: str = "") -> None:
        self._add(path, "FieldValueRequired", f"Required value: {why}" if why else "Required value")

    def invalid(self, path: str, value: Any, why: str) -> None:
        shown = json.dumps(value, separators=(",", ":"))
        if len(shown) > _LONGEST_SHOWN:
            shown = shown[:_LONGEST_SHOWN] + "…"
        self._add(path, "FieldValueInvalid", f"Invalid value: {shown}: {why}")

    def forbidden(self, path: str, why: str) -> None:
        self._add(path, "FieldValueForbidden", f"Forbidden: {why}")

    def duplicate(self, path: str, value: Any) -> None:
        self._add(path, "FieldValueDuplicate", f"Duplicate value: {json.dumps(value)}")

    def not_supported(self, path: str, value: Any, supported: Iterable[str]) -> None:
        listed = ", ".join(json.dumps(item) for item in sorted(supported))
        self._add(
            path,
            "FieldValueNotSupported",
            f"Unsupported value: {json.dumps(value)}: supported values: {listed}",
        )

    def not_found(self, path: str, value: Any, why: str) -> None:
        self._add(path, "FieldValueNotFound", f"Not found: {json.dumps(value)}: {why}")

    def too_long(self, path: str, limit: int) -> None:
        self._add(path, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")

    def too_many(self, path: str, count: int, limit: int) -> None:
        self._add(path, "FieldValueTooMany", f"Too many: {count}: must have at most {limit} items")

    def immutable(self, path: str, value: Any, old: Any, why: str = "field is immutable") -> None:
        """``path`` may not change."""
        if value != old:
            self.invalid(path, value, why)

    def choice(self, path: str, value: Any, supported: Iterable[str]) -> None:
        """``value`` has to be one of ``supported``."""
        options = list(supported)
        if value not in options:
            self.not_supported(path, value, options)

    def _add(self, path: str, reason: str, message: str) -> None:
        self.causes.append(Cause(path, reason, message))
