"""No text of a template gets by without being marked for translation."""

import re
from pathlib import Path

import pytest

from portal.literals import literals, literals_of
from portal.translations import ROOT


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("<p>Hello <b>you</b></p>", ["Hello", "you"]),
        ('{% translate "Hello" %} {{ name }}', []),
        ("{% blocktranslate %}Hello <b>{{ name }}</b>{% endblocktranslate %}", []),
        ("{% comment %}Hello{% endcomment %}{# Hello #}", []),
        ("{% if a %}Save{% endif %}", ["·Save·"]),
        ('<input placeholder="Your name">', ["Your name"]),
        ('<a aria-label="Close" title="{{ x }} days">{{ x }}</a>', ["Close", "· days"]),
        ('<a class="btn btn-primary" id="close" href="/close/">{{ x }}</a>', []),
        ("<code>kubectl get pods</code> <pre>spec:\n  name: x</pre>", []),
        ("<p>gpu.nvidia.com · 80 GiB · CLAIMDESK_DEBUG · ResourceClaim · Pod</p>", []),
        ('<input placeholder="device.memory.compareTo(quantity(x))">', []),
        ('<span lang="en">As the cluster says it</span> <i>but</i>', ["but"]),
    ],
)
def test_what_is_found(template: str, found: list[str]) -> None:
    assert literals(template) == found


def test_every_template_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.html").write_text("<h1>Oops</h1>")
    assert list(literals_of(tmp_path)) == [(tmp_path / "a" / "b.html", "Oops")]


@pytest.mark.parametrize("script", sorted((ROOT / "static").glob("*.js")), ids=lambda path: path.name)
def test_scripts_say_only_what_the_page_gives_them(script: Path) -> None:
    source = re.sub(r"(?m)^\s*//.*$", "", script.read_text(encoding="utf-8")).replace('"use strict"', "")
    strings = re.findall(r'"((?:[^"\\\n]|\\.)*)"', source)
    assert [text for text in strings if re.search(r"\b[A-Za-z][a-z']+ [a-z']+ [a-z']+", text)] == []
