"""Serves single files of the installed front-end packages as static files.

Whole folders would bring source maps, right-to-left variants and unminified copies along: 30 MB that
nobody asks for and that the manifest storage stumbles over.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import BaseFinder
from django.core.checks import CheckMessage, Error
from django.core.files.storage import FileSystemStorage


class PackageFilesFinder(BaseFinder):
    """Finds ``settings.PACKAGE_FILES``: static path → path below ``settings.NODE_MODULES``."""

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        self.root = Path(settings.NODE_MODULES)
        self.files: dict[str, str] = settings.PACKAGE_FILES

    def check(self, **_kwargs: Any) -> list[CheckMessage]:
        missing = [source for source in self.files.values() if not (self.root / source).is_file()]
        if not missing:
            return []
        return [
            Error(
                f"Front-end packages are not installed: {', '.join(missing)}.",
                hint="Run `make setup` (it runs `npm ci`).",
                id="portal.E001",
            )
        ]

    def find(self, path: str, find_all: bool = False, **_kwargs: Any) -> Any:  # noqa: FBT001, FBT002 - Django's signature
        source = self.files.get(path)
        if source is None or not (self.root / source).is_file():
            return []
        found = str(self.root / source)
        return [found] if find_all else found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, FileSystemStorage]]:  # noqa: ARG002 - Django's signature
        for path, source in self.files.items():
            if (self.root / source).is_file():
                yield path, _SingleFile(path, self.root / source)


class _SingleFile(FileSystemStorage):
    """A storage that knows one file under one name."""

    prefix = None

    def __init__(self, name: str, source: Path) -> None:
        super().__init__(location=str(source.parent))
        self._name, self._source = name, source

    def path(self, name: str) -> str:
        return str(self._source) if name == self._name else super().path(name)
