"""Every address of the portal, as the resolver knows it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver


@dataclass(frozen=True)
class Route:
    """One URL pattern: its name ("" where it was given none), its parameters, and the whole pattern."""

    name: str
    parameters: tuple[str, ...]
    pattern: str
    callback: Callable[..., Any]

    @property
    def methods(self) -> frozenset[str] | None:
        """The methods that the view has; None for a function, which only says so when it is called."""
        view = getattr(self.callback, "cls", None) or getattr(self.callback, "view_class", None)
        if view is None:
            return None
        known = frozenset(name.upper() for name in view.http_method_names if hasattr(view, name))
        return known if self.is_api else known & {"GET", "POST"}

    @property
    def is_api(self) -> bool:
        """Whether Django REST framework answers it: with tokens, and with problem documents."""
        return self.pattern.startswith("api/v") or self.pattern == "api/schema/"


def routes() -> list[Route]:
    """All patterns, through every include."""
    return list(_walk(get_resolver(), ""))


def _walk(resolver: URLResolver, prefix: str) -> Iterator[Route]:
    for pattern in resolver.url_patterns:
        whole = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern, whole)
        else:
            assert isinstance(pattern, URLPattern)
            parameters = tuple(re.findall(r"<(?:\w+:)?(\w+)>", whole))
            yield Route(pattern.name or "", parameters, whole, pattern.callback)
