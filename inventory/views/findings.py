"""What is wrong, for those who run the clusters: the list, one finding, diagnosis tasks, what is checked."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from inventory.findings import handling, search, words
from inventory.findings.links import links
from inventory.findings.registry import BY_KIND, RULES
from inventory.models import Cluster, DiagnosisTask, Finding, RuleState, Severity
from portal import csvs, htmx, lists
from portal.access import may_administer, person, require_administrator, require_reader_of_everything
from portal.accounts import audit
from portal.accounts.models import AuditEntry, User
from portal.lists import Column, Listing

PAGE_SIZE = 50
EARLIER_SHOWN = 20
FAULTS = tuple(rule.kind for rule in RULES if rule.opens_task)
STEPS_SHOWN = 50
HEADER = (
    *("id", "cluster", "kind", "severity", "state", "namespace", "name", "subject", "words", "since"),
    *("first_seen_at", "last_seen_at", "unknown_since", "resolved_at", "acknowledged_at", "handled_by"),
    *("snoozed_until", "note"),
)


@dataclass(frozen=True)
class FindingRow:
    """A finding as a page tells it. `url` is the page of what it is about, "" where there is none."""

    finding: Finding
    label: str
    words: str
    state: str
    state_label: str
    url: str
    age: timedelta

    @property
    def about(self) -> str:
        """The object's name, with its namespace, or with the pool of a device."""
        finding = self.finding
        if finding.object_kind == "device":
            return " / ".join(finding.subject.split("/")[-2:])
        in_namespace = finding.namespace and finding.object_kind != "namespace"
        return f"{finding.namespace}/{finding.name}" if in_namespace else finding.name


_STATE_LABELS = {
    "new": gettext_lazy("new"),
    "acknowledged": gettext_lazy("acknowledged"),
    "snoozed": gettext_lazy("put off"),
    "unknown": gettext_lazy("unknown"),
    "resolved": gettext_lazy("no longer holds"),
}


def finding_rows(findings: Collection[Finding], *, now: datetime) -> list[FindingRow]:
    """Findings as pages and REST tell them; a fixed number of queries, whatever theirs."""
    urls = links(findings)
    rows = []
    for finding in findings:
        state = search.state_of(finding, now=now)
        rows.append(
            FindingRow(
                finding=finding,
                label=search.kind_label(finding.kind),
                words=words.in_words(finding),
                state=state,
                state_label=str(_STATE_LABELS[state]),
                url=urls.get(finding.pk, ""),
                age=(finding.resolved_at or now) - finding.began_at,
            )
        )
    return rows


# --- the list ----------------------------------------------------------------------------------------

# The worst first, unless another order is asked for.
LISTING = Listing(
    "findings",
    columns=(
        Column("severity", gettext_lazy("Severity"), css="cd-nowrap"),
        Column("finding", gettext_lazy("Finding"), order=("kind", "-first_seen_at"), fixed=True),
        Column("about", gettext_lazy("About"), order=("namespace", "name")),
        Column("state", gettext_lazy("State")),
        Column("age", gettext_lazy("Age"), css="cd-nowrap"),
        Column("first", gettext_lazy("First seen"), order=("first_seen_at",), css="cd-nowrap"),
        Column("last", gettext_lazy("Last seen"), order=("last_seen_at",), css="cd-nowrap"),
        Column("cluster", gettext_lazy("Cluster"), order=("cluster__name", "-first_seen_at"), shown=False),
    ),
    keeps=("q", "state", "severity", "kind", "cluster"),
)


@require_safe
@require_reader_of_everything
def finding_list(request: HttpRequest) -> HttpResponseBase:
    """What is wrong, the worst first; a fixed number of queries."""
    if (back := LISTING.remembered(request)) is not None:
        return back
    now = timezone.now()
    wanted = search.FindingFilter.parse(request.GET)
    state = LISTING.read(request)
    found = wanted.rows(now=now).select_related("cluster", "acknowledged_by")
    found = found.defer("cluster__kubeconfig_encrypted")
    found = state.ordered(found) if state.sort else search.worst_first(found)
    page = Paginator(found, PAGE_SIZE).get_page(state.page_asked)
    unknown = list(
        RuleState.objects.exclude(unknown_since=None)
        .select_related("cluster")
        .defer("cluster__kubeconfig_encrypted")
        .order_by("cluster__name", "kind")
    )
    context = {
        "wanted": wanted,
        "page": page,
        "rows": finding_rows(list(page.object_list), now=now),
        "counts": search.counts(now=now),
        "states": search.STATES.items(),
        "kinds": [(rule.kind, rule.label) for rule in RULES],
        "severities": Severity.choices,
        "clusters": list(Cluster.objects.order_by("name").values_list("name", flat=True)),
        "unknown_count": len(unknown),
        "unknown_clusters": sorted({state.cluster.name for state in unknown}),
        "checked": RuleState.objects.order_by("-tried_at").values_list("tried_at", flat=True).first(),
    }
    context["kept"] = [pair for pair in state.pairs() if pair[0] in ("sort", "columns")]
    return lists.answer(request, "inventory/finding_list.html", context, state=state, partial="findings")


@require_safe
@require_reader_of_everything
def finding_export(request: HttpRequest) -> HttpResponseBase:
    """The same, all of it, as CSV with UTC times."""
    now = timezone.now()
    found = search.worst_first(search.FindingFilter.parse(request.GET).rows(now=now))
    found = found.select_related("cluster", "acknowledged_by").defer("cluster__kubeconfig_encrypted")
    return csvs.download("findings.csv", HEADER, _lines(found.iterator(chunk_size=500), now=now))


def _lines(found: Iterator[Finding], *, now: datetime) -> Iterator[tuple[Any, ...]]:
    for finding in found:
        yield (
            *(finding.pk, finding.cluster.name, finding.kind, finding.severity),
            *(search.state_of(finding, now=now), finding.namespace, finding.name, finding.subject),
            *(words.in_words(finding), _utc(finding.since), _utc(finding.first_seen_at)),
            *(_utc(finding.last_seen_at), _utc(finding.unknown_since), _utc(finding.resolved_at)),
            *(_utc(finding.acknowledged_at), finding.acknowledged_by and finding.acknowledged_by.username),
            *(_utc(finding.snoozed_until), finding.note),
        )


def _utc(at: datetime | None) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else ""


@require_safe
@require_reader_of_everything
def finding_checks(request: HttpRequest) -> HttpResponse:
    """Every rule on every cluster: when it was judged, or since when and why it cannot be."""
    states: dict[str, list[RuleState]] = {}
    rows = RuleState.objects.select_related("cluster").defer("cluster__kubeconfig_encrypted")
    for state in rows.order_by("cluster__name"):
        states.setdefault(state.kind, []).append(state)
    context = {
        "rules": [
            (rule, [(s, words.unknown_in_words(s.missing)) for s in states.get(rule.kind, [])])
            for rule in RULES
        ],
        "retention": settings.FINDING_RETENTION,
    }
    return htmx.render(request, "inventory/finding_checks.html", context)


# --- one finding -------------------------------------------------------------------------------------


class HandleForm(forms.Form):
    """What to do about a finding; the button says which."""

    SNOOZES = (
        (1, gettext_lazy("1 day")),
        (7, gettext_lazy("7 days")),
        (30, gettext_lazy("30 days")),
        (90, gettext_lazy("90 days")),
    )

    note = forms.CharField(
        label=gettext_lazy("Note"),
        max_length=handling.MAX_NOTE,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy(
            "For whoever comes next: what is known, who was told, what is being waited for."
        ),
    )
    days = forms.TypedChoiceField(label=gettext_lazy("Put off for"), choices=SNOOZES, coerce=int, initial=7)


@require_safe
@require_reader_of_everything
def finding_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One finding with its history, and what can be done about it."""
    finding = _finding(pk)
    return _detail(request, finding, HandleForm(initial={"note": finding.note}))


@require_POST
@require_administrator
def finding_handle(request: HttpRequest, pk: int) -> HttpResponse:
    """Acknowledge it, put it off, or take that back (``action``)."""
    finding, now = _finding(pk), timezone.now()
    action = request.POST.get("action", "")
    form = HandleForm(request.POST)
    who: dict[str, Any] = {
        "finding": finding,
        "actor": person(request),
        "now": now,
        "source_ip": audit.source_ip(request),
    }
    if action == "reopen" or form.is_valid():
        try:
            _handle(action, form, who)
        except handling.UnableToHandle as refused:
            form.add_error(refused.field if refused.field in form.fields else None, refused.message)
        else:
            return htmx.redirect(request, "finding-detail", pk)
    return _detail(request, finding, form, status=422)


def _handle(action: str, form: HandleForm, who: dict[str, Any]) -> None:
    if action == "reopen":
        handling.take_back(**who)
    elif action == "acknowledge":
        handling.acknowledge(note=form.cleaned_data["note"], **who)
    elif action == "snooze":
        until = who["now"] + timedelta(days=form.cleaned_data["days"])
        handling.snooze(note=form.cleaned_data["note"], until=until, **who)
    else:
        raise handling.UnableToHandle("", _("Choose what is to be done."))


def _finding(pk: int) -> Finding:
    rows = Finding.objects.filter(opened_at__isnull=False).select_related("cluster", "acknowledged_by")
    return get_object_or_404(rows.defer("cluster__kubeconfig_encrypted"), pk=pk)


def _detail(request: HttpRequest, finding: Finding, form: HandleForm, *, status: int = 200) -> HttpResponse:
    now = timezone.now()
    earlier = Finding.objects.filter(
        cluster=finding.cluster_id, kind=finding.kind, subject=finding.subject, opened_at__isnull=False
    ).exclude(pk=finding.pk)
    steps = AuditEntry.objects.filter(target_kind="finding", target_id=str(finding.pk))
    task = DiagnosisTask.objects.filter(cluster=finding.cluster_id, subject=finding.subject)
    rule = BY_KIND.get(finding.kind)
    context = {
        "row": finding_rows([finding], now=now)[0],
        "finding": finding,
        "rule": rule,
        "form": form,
        "earlier": earlier.order_by("-first_seen_at")[:EARLIER_SHOWN],
        "steps": steps.select_related("actor").order_by("-at", "-pk")[:STEPS_SHOWN],
        "task": task.select_related("owner").order_by("-opened_at").first()
        if rule is not None and rule.opens_task
        else None,
        "may_administer": may_administer(person(request)),
    }
    return htmx.render(request, "inventory/finding_detail.html", context, status=status)


# --- diagnosis tasks ---------------------------------------------------------------------------------


class TaskForm(forms.Form):
    """State, owner and note of a diagnosis task."""

    state = forms.ChoiceField(label=gettext_lazy("State"), choices=DiagnosisTask.State.choices)
    owner = forms.ModelChoiceField(
        label=gettext_lazy("Owner"),
        queryset=User.objects.filter(is_active=True, is_administrator=True, is_auditor=False).order_by(
            "username"
        ),
        to_field_name="username",
        required=False,
        empty_label=gettext_lazy("nobody yet"),
    )
    note = forms.CharField(
        label=gettext_lazy("What was found"),
        max_length=handling.MAX_NOTE,
        required=False,
        widget=forms.Textarea(attrs={"rows": 4}),
    )


@require_safe
@require_reader_of_everything
def task_list(request: HttpRequest) -> HttpResponse:
    """Diagnosis tasks, those that wait first."""
    state = request.GET.get("state", "")
    tasks = DiagnosisTask.objects.select_related("cluster", "finding", "finding__cluster", "owner").defer(
        "cluster__kubeconfig_encrypted", "finding__cluster__kubeconfig_encrypted"
    )
    if state in DiagnosisTask.State.values:
        tasks = tasks.filter(state=state)
    elif state != "all":
        state, tasks = "", tasks.filter(done_at=None)
    page = Paginator(tasks.order_by("-opened_at", "-pk"), PAGE_SIZE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "rows": [(task, words.in_words(task.finding)) for task in page.object_list],
        "state": state,
        "states": DiagnosisTask.State.choices,
    }
    return htmx.render(request, "inventory/finding_tasks.html", context, partial="tasks")


@require_http_methods(["GET", "HEAD", "POST"])
@require_reader_of_everything
def task_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One task; administrators give it a state, an owner and a note."""
    rows = DiagnosisTask.objects.select_related("cluster", "finding", "finding__cluster", "owner")
    task = get_object_or_404(
        rows.defer("cluster__kubeconfig_encrypted", "finding__cluster__kubeconfig_encrypted"), pk=pk
    )
    if request.method == "POST":
        return _change_task(request, task)
    initial = {"state": task.state, "owner": task.owner and task.owner.username, "note": task.note}
    return _task_page(request, task, TaskForm(initial=initial))


@require_administrator
def _change_task(request: HttpRequest, task: DiagnosisTask) -> HttpResponse:
    form = TaskForm(request.POST)
    if form.is_valid():
        try:
            handling.change_task(
                task=task,
                **form.cleaned_data,
                actor=person(request),
                now=timezone.now(),
                source_ip=audit.source_ip(request),
            )
        except handling.UnableToHandle as refused:
            form.add_error(refused.field or None, refused.message)
        else:
            return htmx.redirect(request, "finding-task", task.pk)
    return _task_page(request, task, form, status=422)


def _task_page(
    request: HttpRequest, task: DiagnosisTask, form: TaskForm, *, status: int = 200
) -> HttpResponse:
    now = timezone.now()
    faults = Finding.objects.filter(
        cluster=task.cluster_id, kind__in=FAULTS, subject=task.subject, opened_at__isnull=False
    )
    faults = faults.select_related("cluster").defer("cluster__kubeconfig_encrypted")
    steps = AuditEntry.objects.filter(target_kind="diagnosistask", target_id=str(task.pk))
    context = {
        "task": task,
        "form": form,
        "row": finding_rows([task.finding], now=now)[0],
        "faults": finding_rows(list(faults.order_by("-first_seen_at")[:EARLIER_SHOWN]), now=now),
        "steps": steps.select_related("actor").order_by("-at", "-pk")[:STEPS_SHOWN],
        "may_administer": may_administer(person(request)),
    }
    return htmx.render(request, "inventory/finding_task.html", context, status=status)
