"""Message catalogues without a system gettext: ``python -m portal.translations compile | extract | check``.

- ``compile`` writes the .mo files that Django reads (a set-up step; they are not committed);
- ``extract`` brings the .po files up to date with the source: new messages come in untranslated, those that
  the source no longer has go;
- ``check`` fails when a message of the source is missing, untranslated or fuzzy in a catalogue, or when a
  template has a text that is not marked as one.

Messages come from gettext calls in Python, from the templates' tags, from the sentences of `portal.dra`,
which is pure and so cannot mark its own, and from `portal.library_messages`.
"""

import ast
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_python
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from portal.library_messages import MESSAGES
from portal.literals import literals_of

ROOT = Path(__file__).resolve().parent.parent
LOCALE_DIR = ROOT / "locale"
SOURCES = ("portal", "inventory", "claims")
# The embedded cluster speaks Kubernetes, not to people.
NOT_FOR_PEOPLE = ("portal/demo/", "portal/dra/", "portal/kube/")
TEMPLATES = ("templates",)

# The functions that mark a message: whether the first argument is a context, and whether there is a plural.
KEYWORDS: dict[str, tuple[bool, bool]] = {
    **dict.fromkeys(("gettext", "gettext_lazy", "gettext_noop"), (False, False)),
    **dict.fromkeys(("ngettext", "ngettext_lazy"), (False, True)),
    **dict.fromkeys(("pgettext", "pgettext_lazy"), (True, False)),
    **dict.fromkeys(("npgettext", "npgettext_lazy"), (True, True)),
}


# --- finding ---------------------------------------------------------------------------------------


def messages_of_source() -> Catalog:
    """Every message that the source asks for, with the files that do."""
    catalog = Catalog(project="Claimdesk", charset="utf-8", fuzzy=False)
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            if "/migrations/" not in place and not place.startswith(NOT_FOR_PEOPLE):
                text = path.read_text(encoding="utf-8")
                _add(catalog, place, text, _names(text))
    in_templates = {**KEYWORDS, "_": KEYWORDS["gettext"]}
    for folder in TEMPLATES:
        # Pages, and the texts of mails.
        for path in sorted([*(ROOT / folder).rglob("*.html"), *(ROOT / folder).rglob("*.txt")]):
            place = path.relative_to(ROOT).as_posix()
            _add(catalog, place, _as_python(path.read_text(encoding="utf-8")), in_templates)
    for sentence in _sentences_of_engine():
        catalog.add(sentence, locations=[("portal/dra/phrases.py", 0)], flags=["python-brace-format"])
    for message in MESSAGES:
        catalog.add(message, locations=[("portal/library_messages.py", 0)])
    return catalog


def _names(python: str) -> dict[str, tuple[bool, bool]]:
    """KEYWORDS under the names that a module imports them by (`gettext as _`)."""
    names = dict(KEYWORDS)
    for node in ast.walk(ast.parse(python)):
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation":
            names |= {a.asname: KEYWORDS[a.name] for a in node.names if a.asname and a.name in KEYWORDS}
    return names


def _add(catalog: Catalog, place: str, python: str, names: dict[str, tuple[bool, bool]]) -> None:
    # Babel's annotation asks for a mapping of specifications; it only looks at the names.
    keywords: Any = list(names)
    for _line, function, found, _comments in extract_python(
        io.BytesIO(python.encode()), keywords, (), {"encoding": "utf-8"}
    ):
        with_context, with_plural = names[str(function)]
        arguments = [found] if isinstance(found, str) else list(found or ())
        context = arguments.pop(0) if with_context and arguments else None
        wanted = arguments[: 2 if with_plural else 1]
        if not wanted or not all(wanted) or (with_context and not context):
            raise ValueError(f"{place}: {function}() is called with something that is not a plain string")
        catalog.add(
            (wanted[0], wanted[1]) if with_plural else wanted[0], context=context, locations=[(place, 0)]
        )


def _as_python(template: str) -> str:
    """A template's messages as gettext calls, the way Django's makemessages sees them."""
    from django.conf import settings
    from django.utils.translation.template import templatize

    if not settings.configured:
        settings.configure()
    # The indentation of HTML is none of Python's.
    return "\n".join(line.lstrip() for line in templatize(template).splitlines())


def _sentences_of_engine() -> Sequence[str]:
    from portal.dra.phrases import PHRASES

    return list(PHRASES.values())


# --- catalogues ------------------------------------------------------------------------------------


def catalogues() -> Iterator[tuple[Path, Catalog]]:
    """The .po files and what they hold."""
    for path in sorted(LOCALE_DIR.glob("*/LC_MESSAGES/django.po")):
        with path.open("rb") as file:
            yield path, read_po(file, locale=path.parent.parent.name, abort_invalid=True)


def compile_all() -> None:
    """Writes a .mo file beside each .po file, replacing an older one in one step."""
    for path, catalog in catalogues():
        # A name of its own: several processes may do this at the same time.
        fresh = path.with_suffix(f".mo.{os.getpid()}")
        with fresh.open("wb") as file:
            write_mo(file, catalog)
        fresh.replace(path.with_suffix(".mo"))


def extract_all() -> None:
    """Brings every .po file up to date; guesses nothing (no fuzzy matches), keeps nothing obsolete."""
    source = messages_of_source()
    for path, catalog in catalogues():
        catalog.update(source, no_fuzzy_matching=True, update_creation_date=False)
        catalog.obsolete.clear()
        for message in catalog:
            if message.id and message.fuzzy:
                # Babel keeps the old text where a message got a plural: that is a guess, too.
                message.flags.discard("fuzzy")
                message.string = ("",) * catalog.num_plurals if message.pluralizable else ""
        catalog.msgid_bugs_address = catalog.last_translator = catalog.language_team = ""
        # In one step: somebody may read it meanwhile.
        fresh = path.with_suffix(f".po.{os.getpid()}")
        with fresh.open("wb") as file:
            write_po(file, catalog, width=110, sort_output=True, include_lineno=False, ignore_obsolete=True)
        fresh.replace(path)


def shortcomings() -> list[str]:
    """What is wrong with the catalogues, one line per message; empty when all is translated."""
    source = messages_of_source()
    found = [
        f"not marked: {text!r} ({path.relative_to(ROOT).as_posix()})"
        for folder in TEMPLATES
        for path, text in literals_of(ROOT / folder)
    ]
    for path, catalog in catalogues():
        name = path.parent.parent.name
        for message in source:
            if message.id:
                known = catalog.get(message.id, context=message.context)
                if problem := _problem(known):
                    found.append(f"{name}: {problem}: {message.id!r} ({message.locations[0][0]})")
    return found


def _problem(known: Message | None) -> str:
    if known is None:
        return "missing"
    if known.fuzzy:
        return "fuzzy"
    strings = [known.string] if isinstance(known.string, str) else list(known.string or ())
    if not strings or not all(strings):
        return "untranslated"
    # Babel checks %-placeholders; the engine's sentences have braces.
    if any(True for _ in known.check()) or any(_braces(text) != _braces(known.id) for text in strings):
        return "placeholders differ"
    return ""


def _braces(text: str | Sequence[str]) -> set[str]:
    return set(re.findall(r"\{\w+\}", text if isinstance(text, str) else " ".join(text)))


def main(arguments: Sequence[str]) -> int:
    """Runs one command; its exit code."""
    match list(arguments):
        case ["compile"]:
            compile_all()
        case ["extract"]:
            extract_all()
        case ["check"]:
            lines = shortcomings()
            sys.stdout.writelines(f"{line}\n" for line in lines)
            return 1 if lines else 0
        case _:
            sys.stderr.write("usage: python -m portal.translations compile | extract | check\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
