"""From text to tokens. Positions are offsets into the text in code points; `Source` turns them into lines."""

from __future__ import annotations

import bisect
import re
from typing import Final, NamedTuple

from portal.dra.cel.errors import CelCompileError
from portal.dra.cel.values import Uint

MAX_LENGTH: Final = 10 * 1024
"""Longest expression, in bytes of UTF-8, that the DRA API accepts (CELSelectorExpressionMaxLength)."""

RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)

_TOKEN: Final = re.compile(
    r"""
    (?P<space>[\t\n\f\r\ ]+|//[^\n]*)
  | (?P<string>(?P<prefix>[bB]?[rR]?)(?P<quote>\"\"\"|'''|"|'))
  | (?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<int>(?:0x[0-9a-fA-F]+|[0-9]+)(?P<unsigned>[uU])?)
  | (?P<ident>[_a-zA-Z][_a-zA-Z0-9]*)
  | (?P<op>==|!=|<=|>=|&&|\|\||[-+*/%!<>?:.,()\[\]{}])
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPE: Final = re.compile(
    r"""\\(?:(?P<simple>[abfnrtv\\?"'`])|[xX](?P<hex>[0-9a-fA-F]{2})|(?P<octal>[0-3][0-7]{2})"""
    r"""|u(?P<u4>[0-9a-fA-F]{4})|U(?P<u8>[0-9a-fA-F]{8})|(?P<bad>.?))""",
    re.DOTALL,
)
_SIMPLE_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}


class Token(NamedTuple):
    """One token: `kind` is "ident", "const", "end" or the operator itself."""

    kind: str
    text: str
    value: object
    at: int


class Source:
    """The expression's text, which knows where its lines begin."""

    def __init__(self, text: str) -> None:
        # JSON lets lone surrogates through; no UTF-8 text can hold one, and upstream sees the replacement.
        self.text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        self._starts = [0, *(match.end() for match in re.finditer("\n", self.text))]

    def error(self, message: str, at: int) -> CelCompileError:
        """A compile error at an offset."""
        row = bisect.bisect_right(self._starts, at)
        return CelCompileError(message, row, at - self._starts[row - 1] + 1)


def tokenize(source: Source) -> list[Token]:
    """All tokens with an "end" token last; raises CelCompileError."""
    text = source.text
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise source.error(f"Syntax error: the character {_show(text[at])} does not belong here", at)
        end = match.end()
        match match.lastgroup:
            case "space":
                pass
            case "string" | "quote" | "prefix":
                value, end = _string(source, at, match["prefix"] or "", match["quote"])
                tokens.append(Token("const", text[at:end], value, at))
            case "double":
                tokens.append(Token("const", match[0], _double(match[0]), at))
            case "int" | "unsigned":
                tokens.append(Token("number", match[0], _integer(match), at))
            case "ident":
                tokens.append(Token("ident", match[0], None, at))
            case _:
                tokens.append(Token(match[0], match[0], None, at))
        at = end
    tokens.append(Token("end", "", None, len(text)))
    return tokens


def _show(character: str) -> str:
    return f"'{character}'" if character.isprintable() else f"U+{ord(character):04X}"


def _double(text: str) -> float:
    return float(text)


def _integer(match: re.Match[str]) -> int:
    """The number without regard to its range, which its sign decides."""
    digits = match["int"].rstrip("uU") if match["unsigned"] else match["int"]
    base = 16 if digits.startswith("0x") else 10
    value = int(digits, base) if len(digits) <= 40 else 10**40
    return Uint(value) if match["unsigned"] else value


def _string(source: Source, at: int, prefix: str, quote: str) -> tuple[str | bytes, int]:
    """The value of the literal that starts at `at`, and the offset behind it."""
    text = source.text
    raw, binary = "r" in prefix.lower(), "b" in prefix.lower()
    start = cursor = at + len(prefix) + len(quote)
    while True:
        if cursor >= len(text) or (len(quote) == 1 and text[cursor] in "\r\n"):
            raise source.error("Syntax error: this string literal is not closed", at)
        if text.startswith(quote, cursor):
            break
        cursor += 2 if text[cursor] == "\\" and not raw else 1
    body = text[start:cursor]
    if len(quote) == 3:
        body = body.replace("\r\n", "\n").replace("\r", "\n")
    end = cursor + len(quote)
    if not raw:
        return _unescape(source, body, start, binary=binary), end
    return (body.encode() if binary else body), end


def _unescape(source: Source, body: str, start: int, *, binary: bool) -> str | bytes:
    parts: list[str | bytes] = []
    cursor = 0
    for match in _ESCAPE.finditer(body):
        parts.append(body[cursor : match.start()])
        cursor = match.end()
        if match["bad"] is not None or (binary and (match["u4"] or match["u8"])):
            raise source.error(
                f"Syntax error: '{match[0]}' is not an escape sequence of CEL", start + match.start()
            )
        if match["simple"]:
            parts.append(_SIMPLE_ESCAPES.get(match["simple"], match["simple"]))
            continue
        code = (
            int(match["octal"], 8) if match["octal"] else int(match["hex"] or match["u4"] or match["u8"], 16)
        )
        if binary:
            parts.append(bytes([code]))
        elif code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise source.error(f"Syntax error: '{match[0]}' is not a character", start + match.start())
        else:
            parts.append(chr(code))
    parts.append(body[cursor:])
    if binary:
        return b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)
    return "".join(part for part in parts if isinstance(part, str))
