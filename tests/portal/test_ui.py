"""What the template tags make of values."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django import forms
from django.core.paginator import Paginator
from django.template import Context, Template, TemplateSyntaxError
from django.test import RequestFactory
from django.utils import timezone, translation
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy

from portal.states import appearance
from portal.templatetags import ui


def render(source: str, path: str = "/", **context: Any) -> str:
    request = RequestFactory().get(path)
    return Template("{% load ui i18n %}" + source).render(Context({"request": request, **context})).strip()


def test_an_icon_is_decoration_unless_it_is_named() -> None:
    assert 'aria-hidden="true"' in render('{% icon "cpu" %}')
    named = render('{% icon "cpu" label=text %}', text='<b>"x"')
    assert 'role="img" aria-label="&lt;b&gt;&quot;x&quot;"' in named


@pytest.mark.parametrize("name", ["no-such-icon", "../../package", "other/cpu"])
def test_an_unknown_icon_is_an_error(name: str) -> None:
    with pytest.raises(TemplateSyntaxError):
        render("{% icon name %}", name=name)


def test_a_state_is_icon_and_word_and_escaped() -> None:
    badge = render('{% state_badge "failed" text %}', text="<failed>")

    assert "cd-state-bad" in badge
    assert "<svg" in badge
    assert "&lt;failed&gt;" in badge


def test_safe_markup_in_a_badge_does_not_make_the_same_text_safe() -> None:
    assert "<b>x</b>" in render('{% state_badge "failed" text %}', text=mark_safe("<b>x</b>"))
    assert "&lt;b&gt;x&lt;/b&gt;" in render('{% state_badge "failed" text %}', text="<b>x</b>")


def test_a_badge_speaks_the_language_of_who_looks() -> None:
    source = '{% state_badge "free" text %}'
    assert "free</span>" in render(source, text=gettext_lazy("free"))
    with translation.override("zh-hans"):
        assert "空闲</span>" in render(source, text=gettext_lazy("free"))


def test_an_unknown_state_is_shown_plainly() -> None:
    assert "something new" in render('{% state_badge "something-new" %}')


def test_every_state_of_the_models_has_a_look_and_every_look_an_icon() -> None:
    from claims.models import Request
    from inventory.models import Cluster, Device, Stream

    for states in (Request.State, Cluster.State, Device.State, Stream.State):
        for state in states.values:
            look = appearance(state)
            assert look.icon != "point", state
            assert "<svg" in ui.icon(look.icon)


def test_counts_in_a_bar_are_told_in_words() -> None:
    bar = render("{% usage_bar free=1 held=3 %}")

    assert 'aria-label="3 held, 1 free"' in bar
    assert 'width="75.000"' in bar


def test_an_empty_bar_says_so() -> None:
    assert 'aria-label="no devices"' in render("{% usage_bar %}")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (timedelta(0), "0 s"),
        (timedelta(seconds=59.9), "59 s"),
        (timedelta(minutes=12, seconds=5), "12 min 5 s"),
        (timedelta(days=3, hours=4, minutes=5), "3 d 4 h"),
        (timedelta(days=1, seconds=5), "1 d"),
        (timedelta(hours=-2), "−2 h"),
        (3600, "1 h"),
        (None, "–"),
    ],
)
def test_durations(value: Any, expected: str) -> None:
    assert ui.human_duration(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (80 * 2**30, "80 GiB"),
        (3 * 2**39, "1.5 TiB"),
        (2**62, "4096 PiB"),
        (None, "–"),
    ],
)
def test_sizes(value: int | None, expected: str) -> None:
    assert ui.human_bytes(value) == expected


def test_a_moment_is_local_with_utc_beside() -> None:
    moment = datetime(2026, 3, 10, 23, 30, 5, tzinfo=UTC)
    with timezone.override("Asia/Shanghai"):
        shown = render("{{ at|local_time }}", at=moment)

    assert "2026-03-11 07:30</time>" in shown
    assert 'title="2026-03-10 23:30:05 UTC"' in shown


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        (timedelta(seconds=3), "just now"),
        (timedelta(minutes=5, seconds=1), "5 min ago"),
        (timedelta(hours=-2, seconds=-30), "in 2 h"),
        (timedelta(days=-90, seconds=5), "in 90 d"),
        (timedelta(hours=23, minutes=40), "1 d ago"),
    ],
)
def test_how_long_ago(distance: timedelta, expected: str) -> None:
    assert f">{expected}</time>" in ui.ago(timezone.now() - distance)


def test_what_is_unknown_is_a_dash() -> None:
    assert ui.ago(None) == ui.local_time(None) == ui.number(None) == ui.money(None, "EUR") == "–"


def test_money_and_numbers_are_grouped() -> None:
    assert ui.number(1234567) == "1,234,567"
    assert ui.money(Decimal("1234.5"), "EUR") == "€1,234.50"


def test_changing_a_filter_goes_back_to_the_first_page() -> None:
    assert render('{% query_with state="free" %}', "/?q=a&page=3") == "?q=a&amp;state=free"
    assert render("{% query_with page=2 %}", "/?q=a&page=3") == "?q=a&amp;page=2"
    assert render("{% query_with q=None %}", "/?q=a&b=1") == "?b=1"


def test_a_repeated_parameter_is_toggled() -> None:
    assert render('{% query_toggle "s" "b" %}', "/?s=a&page=2") == "?s=a&amp;s=b"
    assert render('{% query_toggle "s" "a" %}', "/?s=a&s=b") == "?s=b"


def test_a_column_sorts_both_ways() -> None:
    assert 'href="?sort=name"' in render('{% sort_header "name" "Name" %}')
    ascending = render('{% sort_header "name" "Name" %}', "/?sort=name")
    assert 'aria-sort="ascending"' in ascending
    assert 'href="?sort=-name"' in ascending
    assert 'aria-sort="descending"' in render('{% sort_header "name" "Name" %}', "/?sort=-name")


def test_pages_keep_the_filters() -> None:
    page = Paginator(range(100), 10).page(2)
    shown = render("{% paginate page %}", "/?q=a", page=page)

    assert "11–20 of 100 entries" in shown
    assert 'href="?q=a&amp;page=1" rel="prev"' in shown
    assert 'aria-current="page">2<' in shown


class _Form(forms.Form):
    name = forms.CharField(help_text="What you call it.")
    kind = forms.ChoiceField(choices=[("a", "A")], required=False)
    flags = forms.MultipleChoiceField(choices=[("x", "X")], widget=forms.CheckboxSelectMultiple)
    agreed = forms.BooleanField()


def test_a_field_is_joined_to_its_label_help_and_error() -> None:
    shown = render("{% form_field form.name %}", form=_Form({}))

    assert '<label class="form-label" for="id_name">' in shown
    assert 'aria-describedby="id_name_helptext id_name_error"' in shown
    assert 'id="id_name_error"' in shown
    assert "This field is required." in shown
    assert 'aria-invalid="true"' in shown


def test_groups_have_a_legend_and_optional_fields_say_so() -> None:
    assert "<legend" in render("{% form_field form.flags %}", form=_Form())
    assert "optional" in render("{% form_field form.kind %}", form=_Form())
    assert 'class="form-check-input"' in render("{% form_field form.agreed %}", form=_Form())


def test_typed_text_is_escaped_and_kept() -> None:
    assert 'value="&lt;x&gt;"' in render("{% form_field form.name %}", form=_Form({"name": "<x>"}))


def test_a_title_stands_twice_on_a_page() -> None:
    source = "<title>{% block title %}A & B{% endblock %}</title><h1>{% block_again 'title' %}</h1>"
    child = Template("{% extends base %}{% block title %}Mine{% endblock %}")
    base = Template("{% load ui %}" + source)

    assert child.render(Context({"base": base})) == "<title>Mine</title><h1>Mine</h1>"


@pytest.mark.parametrize(
    ("name", "letters"), [("Mina", "M"), ("Mina Okoye", "MO"), ("A b C", "AC"), ("", "")]
)
def test_initials(name: str, letters: str) -> None:
    assert ui.initials(name) == letters


def test_units_are_translated() -> None:
    with translation.override("zh-hans"):
        assert ui.human_duration(timedelta(hours=2, minutes=3)) == "2 小时 3 分钟"
