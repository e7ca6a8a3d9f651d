"""Every text that people read is there in every language."""

import io
import re
from pathlib import Path
from typing import Any

import django
import pytest
from babel.messages.extract import extract_python
from django.contrib.auth.password_validation import MinimumLengthValidator
from django.core.exceptions import ValidationError
from django.utils import translation

from portal import translations

GETTEXT = "from django.utils.translation import gettext as _\n"
PO = """msgid ""
msgstr ""
"Content-Type: text/plain; charset=utf-8\\n"
"Plural-Forms: nplurals=1; plural=0;\\n"

{flags}msgid "Hello %(name)s"
msgstr "{text}"
"""


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with one Python file, one template and one catalogue."""
    monkeypatch.setattr(translations, "ROOT", tmp_path)
    monkeypatch.setattr(translations, "LOCALE_DIR", tmp_path / "locale")
    monkeypatch.setattr(translations, "SOURCES", ("app",))
    monkeypatch.setattr(translations, "_sentences_of_engine", list)
    monkeypatch.setattr(translations, "MESSAGES", ())
    (tmp_path / "app").mkdir()
    (tmp_path / "templates").mkdir()
    (tmp_path / "locale" / "zh_Hans" / "LC_MESSAGES").mkdir(parents=True)
    (tmp_path / "app" / "a.py").write_text(GETTEXT + '_("Hello %(name)s")\n')
    return tmp_path


def catalogue(house: Path, text: str, flags: str = "#, python-format\n") -> Path:
    path = house / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
    path.write_text(PO.format(text=text, flags=flags))
    return path


def test_the_portal_is_wholly_translated() -> None:
    assert translations.shortcomings() == []


# What of libraries people read here: validators, forms, sign-in, the REST API's errors.
LIBRARIES = (
    *("django/forms", "django/core/validators.py", "django/contrib/auth/password_validation.py"),
    *("django/contrib/auth/forms.py", "django/contrib/auth/validators.py", "allauth/account", "allauth/mfa"),
    *("rest_framework/fields.py", "rest_framework/exceptions.py", "rest_framework/validators.py"),
    *("rest_framework/relations.py", "rest_framework/serializers.py", "rest_framework/pagination.py"),
)


def test_what_libraries_say_is_translated_too() -> None:
    site = Path(django.__file__).parent.parent
    plain: set[str] = set()
    counted: set[tuple[str, str]] = set()
    for name in LIBRARIES:
        files = [site / name] if name.endswith(".py") else sorted((site / name).rglob("*.py"))
        for path in files:
            source = path.read_bytes()
            marks: Any = list(translations._names(source.decode()))
            for _line, mark, message, _comments in extract_python(io.BytesIO(source), marks, (), {}):
                if str(mark).startswith(("pgettext", "npgettext")):
                    continue  # asked for with a context: a few labels of fields
                texts = [message] if isinstance(message, str) else [text for text in message or () if text]
                if len(texts) == 2:
                    counted.add((texts[0], texts[1]))
                elif texts and re.search("[a-z]{3}", texts[0]):
                    plain.add(texts[0])
    assert len(plain) > 200

    with translation.override("zh-hans"):
        assert {text for text in plain if translation.gettext(text) == text} == {"WebAuthn"}
        assert {one for one, many in counted if translation.ngettext(one, many, 2) == many} == set()


def test_a_short_password_is_refused_in_chinese() -> None:
    with translation.override("zh-hans"), pytest.raises(ValidationError) as refused:
        MinimumLengthValidator().validate("short")
    assert not re.search("[A-Za-z]{2}", refused.value.messages[0])


def test_an_untranslated_message_is_found(house: Path) -> None:
    catalogue(house, "")

    assert translations.shortcomings() == ["zh_Hans: untranslated: 'Hello %(name)s' (app/a.py)"]


def test_a_fuzzy_message_is_found(house: Path) -> None:
    catalogue(house, "你好 %(name)s", flags="#, fuzzy, python-format\n")

    assert "fuzzy" in translations.shortcomings()[0]


def test_a_translation_with_another_placeholder_is_found(house: Path) -> None:
    catalogue(house, "你好 %(nmae)s")

    assert "placeholders differ" in translations.shortcomings()[0]


def test_braces_are_placeholders_too(house: Path) -> None:
    catalogue(house, "你好 %(name)s {who}")

    assert "placeholders differ" in translations.shortcomings()[0]


def test_a_message_of_the_source_that_no_catalogue_has_is_found(house: Path) -> None:
    catalogue(house, "你好 %(name)s")
    (house / "app" / "b.py").write_text('ngettext("one", "many", n)\npgettext("where", "left")\n')

    assert translations.shortcomings() == [
        "zh_Hans: missing: ('one', 'many') (app/b.py)",
        "zh_Hans: missing: 'left' (app/b.py)",
    ]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ('    {% translate "A title" %}', "A title"),
        ('{% icon "x" label=_("Close") %}', "Close"),
        ("<p>it's {% blocktranslate with a=b %}Hi {{ a }}{% endblocktranslate %}</p>", "Hi %(a)s"),
        (
            "{% blocktranslate count n=n %}{{ n }} thing{% plural %}{{ n }} things{% endblocktranslate %}",
            ("%(n)s thing", "%(n)s things"),
        ),
    ],
)
def test_templates_are_read(house: Path, template: str, message: str | tuple[str, str]) -> None:
    (house / "templates" / "t.html").write_text(f"{{% if x %}}\n  {template}\n{{% endif %}}\n")

    assert message in [m.id for m in translations.messages_of_source()]


def test_functions_are_known_by_whatever_name_they_are_imported(house: Path) -> None:
    (house / "app" / "b.py").write_text(
        "from django.utils.translation import gettext as say, gettext_lazy as later\n"
        'say("now")\nlater("then")\nother("no")\n_("not ours")\n'
    )

    ids = [m.id for m in translations.messages_of_source() if m.id]
    assert ids == ["Hello %(name)s", "now", "then"]


def test_a_marked_text_that_is_not_plain_is_an_error(house: Path) -> None:
    (house / "app" / "b.py").write_text(GETTEXT + "_(name)\n")

    with pytest.raises(ValueError, match=r"app/b\.py"):
        translations.messages_of_source()


def test_extracting_adds_new_messages_and_drops_old_ones(house: Path) -> None:
    path = catalogue(house, "你好 %(name)s")
    (house / "app" / "a.py").write_text(GETTEXT + '_("Hello %(name)s")\n_("Bye")\n')
    translations.extract_all()
    assert 'msgid "Bye"\nmsgstr ""' in path.read_text()
    assert "你好" in path.read_text()

    (house / "app" / "a.py").write_text(GETTEXT + '_("Bye")\n')
    translations.extract_all()

    assert "你好" not in path.read_text()


def test_compiling_needs_no_system_gettext(house: Path) -> None:
    import gettext

    path = catalogue(house, "你好 %(name)s")

    assert translations.main(["compile"]) == 0

    with path.with_suffix(".mo").open("rb") as file:
        assert gettext.GNUTranslations(file).gettext("Hello %(name)s") == "你好 %(name)s"
    assert [entry.name for entry in path.parent.iterdir()].count("django.mo") == 1


def test_the_check_command_fails_and_names_what_lacks(
    house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalogue(house, "")

    assert translations.main(["check"]) == 1
    assert "untranslated" in capsys.readouterr().out
    assert translations.main(["nonsense"]) == 2
