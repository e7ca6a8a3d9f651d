"""What the documents say of commands, settings, files and each other is true."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from portal.env import BASE_DIR

DOCUMENTS = [
    BASE_DIR / "README.md",
    *sorted((BASE_DIR / "docs").glob("*.md")),
    *sorted((BASE_DIR / "deploy").rglob("*.md")),
]
NAMES = [str(path.relative_to(BASE_DIR)) for path in DOCUMENTS]
MANAGE = re.compile(r"manage\.py +([a-z_]+)([^`\n|]*)")


@pytest.fixture(params=DOCUMENTS, ids=NAMES)
def document(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Commands of manage.py with their options."""
    for name, rest in MANAGE.findall(text):
        words = rest.split("#")[0]
        try:
            yield name, shlex.split(words)
        except ValueError:
            yield name, words.split()


def test_commands_and_their_options_are_there(document: Path) -> None:
    known = get_commands()
    for name, words in commands(document.read_text()):
        assert name in known, f"manage.py {name}"
        command = load_command_class(known[name], name)
        parser = command.create_parser("manage.py", name)
        offered = parser.format_help()
        for action in parser._actions:
            for choice in getattr(action, "choices", None) or ():
                chosen = action.choices[choice] if isinstance(action.choices, dict) else None
                offered += chosen.format_help() if chosen is not None else f" {choice}"
        for word in words:
            if word.startswith("--"):
                assert word.split("=")[0].rstrip(",.;") in offered, f"manage.py {name} {word}"


def test_links_and_files_lead_somewhere(document: Path) -> None:
    text = document.read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (document.parent / target).exists(), target
    for path in re.findall(r"`((?:deploy|docs|tests|portal|claims|inventory|benchmarks)/[\w./-]+)`", text):
        assert (BASE_DIR / path).exists(), path


def test_settings_are_ones_that_the_desk_reads(document: Path) -> None:
    files = [*(BASE_DIR / "portal").glob("*.py"), *(BASE_DIR / "deploy").rglob("*.py")]
    source = "".join(path.read_text() for path in files)
    # A variable of the shell is the reader's own.
    named = set(re.findall(r"(?<![$\w])CLAIMDESK_[A-Z_]*[A-Z]\b(?!_)", document.read_text()))
    for name in named:
        of_provider = name.removeprefix("CLAIMDESK_OIDC_")
        assert f'"{name}"' in source or (of_provider != name and of_provider in source), name
