"""Whose a device is, in a cell of a list."""

from datetime import UTC, datetime

from django.template import Context, Template
from django.utils import translation

from inventory.holders import ClaimSeen, Holder
from portal.accounts.models import Project

SINCE = datetime(2026, 3, 1, 7, 5, tzinfo=UTC)
CLAIM = ClaimSeen(namespace="folding", name="gpu", uid="u1", epoch=1, consumers=())


def told(*holders: Holder, in_step: bool = True) -> str:
    page = Template("{% load devices %}{% held_by holders in_step %}")
    return page.render(Context({"holders": holders, "in_step": in_step}))


def holder(name: str | None, *, claim: ClaimSeen | None = None, since: datetime | None = SINCE) -> Holder:
    project = None if name is None else Project(name=name, slug="folding")
    return Holder(
        project=project, since=since, request="", consumed={}, admin_access=False, claim=claim, conditions=()
    )


def test_nobody_is_a_dash() -> None:
    assert told() == '<span class="cd-muted">–</span>'


def test_a_stranger_reads_the_project_and_since_when_without_a_link() -> None:
    found = told(holder("Folding <2>"))
    assert "Folding &lt;2&gt; <span" in found
    assert "since <time" in found
    assert "2026-03-01 07:05</time>" in found
    assert "<a " not in found


def test_who_sees_the_claim_gets_to_the_project() -> None:
    assert '<a class="inv-plain" href="/projects/folding/">Folding</a>' in told(
        holder("Folding", claim=CLAIM)
    )


def test_of_many_two_are_named() -> None:
    found = told(holder("One"), holder(None), holder("Three"), holder("Four"))
    assert "One" in found
    assert "no project" in found
    assert "Three" not in found
    assert "and 2 more" in found


def test_of_the_past_it_says_only_when() -> None:
    assert "since" not in told(holder("One"), in_step=False).replace("inv-since", "")
    assert "<time" not in told(holder("One", since=None))


def test_it_speaks_the_reader_s_language() -> None:
    with translation.override("zh-hans"):
        assert "自 <time" in told(holder("One"))
