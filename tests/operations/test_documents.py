"""What the documents say of commands, settings, files and each other is true."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.pofile import read_po
from django.core.management import get_commands, load_command_class
from django.urls import resolve

from portal.env import BASE_DIR

DOCUMENTS = [
    BASE_DIR / "README.md",
    *sorted((BASE_DIR / "docs").glob("*.md")),
    *sorted((BASE_DIR / "deploy").rglob("*.md")),
]
NAMES = [str(path.relative_to(BASE_DIR)) for path in DOCUMENTS]
GUIDES = [
    BASE_DIR / "docs" / f"{who}.md"
    for who in ("researchers", "administrators", "finance", "operators", "developers")
]
CATALOGUE = BASE_DIR / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
# Programs that a guide may tell to run, apart from our own.
PROGRAMS = {"make", "kubectl", "curl", "cp", "docker", "pg_dump", "promtool"}
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
    files += (BASE_DIR / "tests" / "browser").glob("test_*.py")
    source = "".join(path.read_text() for path in files)
    # A variable of the shell is the reader's own.
    named = set(re.findall(r"(?<![$\w])CLAIMDESK_[A-Z_]*[A-Z]\b(?!_)", document.read_text()))
    for name in named:
        of_provider = name.removeprefix("CLAIMDESK_OIDC_")
        assert f'"{name}"' in source or (of_provider != name and of_provider in source), name


@pytest.fixture(params=GUIDES, ids=[path.stem for path in GUIDES])
def guide(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def blocks(text: str) -> Iterator[str]:
    """The lines of commands in fenced and indented blocks, continued lines as one."""
    text = re.sub(r"\\\n\s*", "", text)
    for fenced in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from fenced.splitlines()
    yield from re.findall(r"^    (\S.*)", text, re.MULTILINE)


def test_words_of_pages_in_a_guide_are_on_pages(guide: Path) -> None:
    with CATALOGUE.open("rb") as file:
        known = {text for message in read_po(file) if isinstance(text := message.id, str)}
    for words in re.findall(r"(?<!\*)\*([A-Za-z][^*]+)\*(?!\*)", guide.read_text()):
        said = " ".join(words.split())
        assert said in known or said in {"italics", "unknown"}, said


def test_addresses_in_a_guide_are_there(guide: Path) -> None:
    text = guide.read_text()
    addresses = {*re.findall(r"`(/[a-z][\w/]*/)`", text), *re.findall(r"\$DESK(/[\w/-]+/)", text)}
    for address in addresses:
        resolve(address)


def test_commands_of_a_guide_are_known(guide: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):.*##", (BASE_DIR / "Makefile").read_text(), re.MULTILINE))
    text = guide.read_text()
    for target in re.findall(r"(?:`|^    )make ([a-z-]+)", text, re.MULTILINE):
        assert target in targets, target
    for module in re.findall(r"-m ((?:portal|tests|benchmarks)[\w.]*)", text):
        path = BASE_DIR / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
    for line in blocks(text):
        words = line.split()
        while words and re.match(r"[A-Z_]+=", words[0]):
            words.pop(0)
        if not words or words[0].startswith(("portal/", "inventory", "claims")):
            continue  # the map of the house
        assert words[0] in PROGRAMS or words[0] == ".venv/bin/python", line
        if words[0] == ".venv/bin/python":
            assert words[1] in ("manage.py", "-m"), line


def test_pictures_are_there_and_small() -> None:
    shown = re.findall(r"""(?:src="|\]\()(docs/pictures/[\w.-]+)""", (BASE_DIR / "README.md").read_text())
    kept = {str(path.relative_to(BASE_DIR)) for path in (BASE_DIR / "docs" / "pictures").iterdir()}
    assert shown
    assert set(shown) == kept
    assert all((BASE_DIR / path).stat().st_size < 150_000 for path in kept)
