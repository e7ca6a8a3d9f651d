"""Commands that the documents tell to run: those of blocks, and those within a sentence."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from portal.env import BASE_DIR

DOCUMENTS = [
    BASE_DIR / "README.md",
    *sorted((BASE_DIR / "docs").glob("*.md")),
    *sorted((BASE_DIR / "deploy").rglob("*.md")),
]
SHELLS = {"sh", "bash", "console"}
# What a line of an indented block, or text between backticks, begins with where it is a command.
PROGRAM = re.compile(
    r"(?:[A-Z][A-Z_]*=\S+\s+)*(?:\./|\.venv/bin/)?"
    r"(?:python|celery|granian|make|kubectl|curl|pg_dump|pg_restore|createdb|docker|promtool|cp|openapi-python-client|manage\.py)\b"
)
ASSIGNMENT = re.compile(r"[A-Za-z_]+=\S*$")


@dataclass(frozen=True)
class Block:
    """A block of a document as it stands there: fenced, with its language, or indented."""

    language: str
    text: str

    @property
    def is_of_commands(self) -> bool:
        lines = self.text.splitlines()
        return self.language in SHELLS or (not self.language and bool(lines) and is_command(lines[0]))

    def commands(self) -> Iterator[str]:
        """One after the other; what goes on over several lines is one."""
        collected = ""
        for line in self.text.splitlines():
            collected += f"{line}\n"
            if not _goes_on(collected):
                if collected.strip():
                    yield collected.strip()
                collected = ""
        if collected.strip():
            raise ValueError(f"a command without an end: {collected}")


def is_command(text: str) -> bool:
    return PROGRAM.match(text) is not None or ASSIGNMENT.match(text) is not None


def blocks(text: str) -> Iterator[Block]:
    """Every block of a document, in order."""
    fenced = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    indented = re.compile(r"(?<=\n\n)(?: {4,}\S.*\n(?:\n(?= {4}))?)+", re.MULTILINE)
    found = [(match.start(), Block(match[1] or "text", match[2])) for match in fenced.finditer(text)]
    inside = [match.span() for match in fenced.finditer(text)]
    for match in indented.finditer(text):
        if not any(start <= match.start() < end for start, end in inside):
            lines = match[0].splitlines()
            margin = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
            found.append((match.start(), Block("", "\n".join(line[margin:] for line in lines) + "\n")))
    for _start, block in sorted(found, key=lambda pair: pair[0]):
        yield block


def in_sentences(text: str) -> Iterator[str]:
    """Commands between backticks, outside of blocks."""
    for block in ("^```.*?^```$", r"(?<=\n\n)(?: {4,}\S.*\n(?:\n(?= {4}))?)+"):
        text = re.sub(block, "", text, flags=re.MULTILINE | re.DOTALL if "```" in block else re.MULTILINE)
    for inside in re.findall(r"`([^`]+)`", text):
        said = " ".join(inside.split())
        if PROGRAM.match(said) and " " in said:
            yield said


def commands_of(document: Path) -> list[str]:
    """All of a document: its blocks', then those within sentences that are not in a block as well."""
    text = document.read_text()
    found = [command for block in blocks(text) if block.is_of_commands for command in block.commands()]
    known = {" ".join(command.split()) for command in found}
    return found + [command for command in dict.fromkeys(in_sentences(text)) if command not in known]


def _goes_on(text: str) -> bool:
    if text.rstrip().endswith(("\\", "|")):
        return True
    # An open quote or brace: the shell itself knows best.
    done = subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False)
    return done.returncode != 0
