"""The two ways in which a selector fails: it is wrong, or it is wrong for one device."""

from __future__ import annotations


class CelCompileError(Exception):
    """The expression cannot be compiled. Line and column start at 1; both are 0 if the whole is at fault."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        self.message = message
        self.line = line
        self.column = column
        super().__init__(f"{line}:{column}: {message}" if line else message)

    def excerpt(self, expression: str) -> str:
        """The message as the API server words it, with the line at fault and a mark below the place."""
        if not self.line:
            return self.message
        lines = expression.split("\n")
        text = lines[self.line - 1] if self.line <= len(lines) else ""
        before = "".join("." if character.isascii() else "．" for character in text[: self.column - 1])
        mark = "^" if text[self.column - 1 : self.column].isascii() else "＾"
        shown = text.replace("\t", " ")
        return f"ERROR: <input>:{self.line}:{self.column}: {self.message}\n | {shown}\n | {before}{mark}"


class CelEvaluationError(Exception):
    """The expression is fine, but has no answer for this device; the message is in CEL's words."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class CostExceeded(Exception):
    """The evaluation costs more than the limit; leaves the evaluator as a CelEvaluationError.

    An event of its own, since operators that absorb errors must not absorb this one.
    """

    MESSAGE = "operation cancelled: actual cost limit exceeded"
