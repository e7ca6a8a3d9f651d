"""Texts of templates that no tag marks for translation, so that no language but English has them."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

# What templates say outside of HTML: comments, marked texts, tags, values.
_NOT_HTML = re.compile(
    r"{%\s*comment\b.*?{%\s*endcomment\s*%}|{#.*?#}"
    r"|{%\s*blocktranslate\b.*?{%\s*endblocktranslate\s*%}"
    r"|{%.*?%}|{{.*?}}",
    re.DOTALL,
)
# Words as people write them: what has digits, dots or inner capitals is a name, what is called is code.
_PIECE = re.compile(r"[\w./:=@-]+(?![\w./:=@(-])")
_WORD = re.compile(r"[A-Za-z][a-z]+")
# Elements whose text is no prose, and attributes that people read or hear.
_CODE = {"code", "pre", "kbd", "samp", "script", "style", "svg"}
_SPOKEN = ("title", "placeholder", "alt", "label")
# Names are the same in every language.
_NAMES = {"Claimdesk", "Kubernetes", "Kueue", "Pod", "Pods", "Job", "Workload"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in _CODE or "lang" in given:
            self._inside.append(tag)
        for name, value in attrs:
            if name in _SPOKEN or name == "aria-label":
                self._check(value or "")

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self._check(data)

    def _check(self, text: str) -> None:
        pieces = (piece.strip(".:-/") for piece in _PIECE.findall(text))
        if any(_WORD.fullmatch(piece) and piece not in _NAMES for piece in pieces):
            self.found.append(" ".join(text.split()))


def literals(template: str) -> list[str]:
    """The texts that people would read in English whatever their language, in order."""
    reader = _Reader()
    # A mark in their place keeps apart what stood before and after.
    reader.feed(_NOT_HTML.sub("\N{MIDDLE DOT}", template))
    reader.close()
    return reader.found


def literals_of(folder: Path) -> Iterator[tuple[Path, str]]:
    """The same of every template below a folder."""
    for path in sorted(folder.rglob("*.html")):
        for text in literals(path.read_text(encoding="utf-8")):
            yield path, text
