"""Taints: all of them, and the rules that administrators make, with what each would do shown first."""

import secrets
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from inventory.coverage import coverage_of, coverage_of_all
from inventory.models import Cluster, DeskRule, DeviceTaintRule, Effect, Pool
from inventory.taints import keeping, rules
from inventory.taints.blast import Blast, blast_of, tally
from inventory.taints.forms import RuleForm
from inventory.taints.listing import KINDS, TaintFilter, add_places, taint_rows
from inventory.taints.rules import Deed, UnableToTaint, WantedRule
from inventory.taints.selecting import Selector, Taint
from inventory.taints.serving import serving
from portal import access, htmx
from portal.access import person, require_administrator, require_reader_of_everything
from portal.accounts import audit
from portal.texts import searched

PAGE_SIZE = 50
PODS_SHOWN = 100
DRIVERS_OFFERED = 100


@require_safe
def taint_list(request: HttpRequest) -> HttpResponse:
    """Every taint, with its owner, its age and whose work is there."""
    now = timezone.now()
    coverage = coverage_of_all(now=now)
    wanted = TaintFilter(
        cluster=_chosen(request, "cluster", [known.cluster.name for known in coverage.values()]),
        kind=_chosen(request, "kind", KINDS),
        effect=_chosen(request, "effect", Effect.values),
        q=searched(request.GET.get("q", ""), limit=100),
        left_over="left" in request.GET,
    )
    rows = taint_rows(wanted, coverage=coverage)
    page = Paginator(rows, PAGE_SIZE).get_page(request.GET.get("page"))
    add_places(list(page), now=now)
    context = {
        "page": page,
        "wanted": wanted,
        "coverage": list(coverage.values()),
        "behind": [known for known in coverage.values() if not known.in_step],
        "effects": Effect.values,
        "left_over": sum(row.owner.left_over for row in rows if row.owner.desk),
        "not_served": [
            (known.cluster, served) for known in coverage.values() if not (served := serving(known.cluster))
        ],
        "may_administer": access.may_administer(person(request)),
        "reads_all": access.may_read_everything(person(request)),
    }
    return htmx.render(request, "inventory/taint_list.html", context, partial="rows")


@require_safe
@require_reader_of_everything
def taint_rule_detail(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    """One rule: whose it is, what it does by the desk's count, and what the cluster itself says."""
    rule = _rule_or_404(cluster, name)
    now = timezone.now()
    made = DeskRule.objects.filter(cluster=rule.cluster, name=name, uid=rule.uid, removed_at=None)
    context = {
        "rule": rule,
        "made": made.select_related("actor", "maintenance", "drain").first(),
        "may_administer": access.may_administer(person(request)),
        **_blast_context(_blast(rule.cluster, _as_wanted(rule))),
        "now": now,
    }
    return render(request, "inventory/taint_rule.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def taint_rule_create(request: HttpRequest) -> HttpResponse:
    """Make a rule: first what it would do is shown, then it is made."""
    clusters = [c for c in Cluster.objects.filter(enabled=True).order_by("name") if serving(c)]
    given = request.GET
    chosen = next((c for c in clusters if c.name == given.get("cluster")), clusters[0] if clusters else None)
    initial = {
        "cluster": chosen.name if chosen else "",
        "name": f"desk-{secrets.token_hex(3)}",
        "driver": searched(given.get("driver", ""), limit=63),
        "pool": searched(given.get("pool", ""), limit=253),
        "device": searched(given.get("device", ""), limit=63),
        "key": f"{rules.PREFIX}/repair",
        "effect": Effect.NONE if chosen and serving(chosen).knows_none else Effect.NO_SCHEDULE,
    }
    form = RuleForm(request.POST or None, clusters=clusters, initial=initial)
    if request.method == "POST" and form.is_valid():
        return _look_or_save(request, form, form.chosen_cluster(), form.wanted())
    return _page(request, form)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def taint_rule_edit(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    """Change a rule, in the same two steps; a change by somebody else meanwhile is shown."""
    rule = _rule_or_404(cluster, name)
    initial = {
        "driver": rule.driver, "pool": rule.pool_name, "device": rule.device_name, "key": rule.key,
        "value": rule.value, "effect": _chosen(request, "effect", Effect.values) or rule.effect,
        "seen_version": rule.resource_version,
    }  # fmt: skip
    form = RuleForm(request.POST or None, clusters=[rule.cluster], fixed=True, initial=initial)
    if request.method == "POST" and form.is_valid():
        return _look_or_save(request, form, rule.cluster, form.wanted(name), rule=rule)
    return _page(request, form, rule=rule)


@require_http_methods(["GET", "HEAD", "POST"])
@require_administrator
def taint_rule_delete(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    """Take a rule away, after a page that says what that means."""
    rule = _rule_or_404(cluster, name)
    error = ""
    if request.method == "POST":
        deed = Deed(actor=person(request), now=timezone.now(), source_ip=audit.source_ip(request))
        try:
            rules.delete_rule(cluster=rule.cluster, name=name, deed=deed, uid=rule.uid)
        except UnableToTaint as refused:
            error = refused.message
        else:
            said = _("%(name)s is deleted on %(cluster)s. The list follows within seconds.")
            messages.success(request, said % {"name": name, "cluster": cluster})
            return htmx.redirect(request, "taint-list")
    blast = _blast(rule.cluster, _as_wanted(rule))
    consequences = [_("New claims may get these devices again: %(count)d.") % {"count": blast.devices}]
    made = DeskRule.objects.filter(cluster=rule.cluster, name=name, uid=rule.uid, removed_at=None).first()
    if made is not None and (made.maintenance or made.drain):
        consequences.append(_("It belongs to a maintenance or a drain that goes on without it."))
    if error:
        consequences.insert(0, error)
    context = {
        "title": _("Delete the rule %(name)s?") % {"name": name},
        "text": _("The taint %(taint)s goes from the cluster %(cluster)s.")
        % {"taint": f"{rule.key}={rule.value}:{rule.effect}", "cluster": cluster},
        "consequences": consequences,
        "submit_label": _("Delete the rule"),
        "cancel_url": reverse("taint-rule-detail", args=[cluster, name]),
        "on_cluster": True,
    }
    return render(request, "components/confirm.html", context, status=422 if error else 200)


@require_POST
@require_administrator
def taint_leftovers(request: HttpRequest) -> HttpResponse:
    """Take away what outlived its maintenance or drain."""
    if access.only_looks():
        messages.error(request, access.why_only_looks())
        return htmx.redirect(request, "taint-list")
    left = keeping.remove_leftovers(now=timezone.now(), actor=person(request))
    if left:
        said = _("%(count)d are still there: their clusters cannot be reached or refuse.")
        messages.error(request, said % {"count": left})
    else:
        messages.success(request, _("Nothing is left over any more."))
    return htmx.redirect(request, "taint-list")


# --- inside -------------------------------------------------------------------------------------------


def _look_or_save(
    request: HttpRequest,
    form: RuleForm,
    cluster: Cluster,
    wanted: WantedRule,
    *,
    rule: DeviceTaintRule | None = None,
) -> HttpResponse:
    blast = _blast(cluster, wanted, instead_of=rule.name if rule else "")
    looked = request.POST.get("step") == "save" and request.POST.get("looked") == blast.digest
    deed = Deed(actor=person(request), now=timezone.now(), source_ip=audit.source_ip(request))
    # What is only looked at needs no confirmation yet.
    confirmed = form.cleaned_data["confirm"] if looked else cluster.name
    try:
        if rule is None:
            rules.create_rule(
                cluster=cluster, wanted=wanted, deed=deed, confirmed=confirmed, rehearse_only=not looked
            )
        else:
            rules.update_rule(
                cluster=cluster, wanted=wanted, deed=deed, confirmed=confirmed, rehearse_only=not looked,
                seen_version=form.cleaned_data["seen_version"] or rule.resource_version,
            )  # fmt: skip
    except UnableToTaint as refused:
        form.refuse(refused.field, refused.message)
    else:
        if looked:
            said = _("%(cluster)s has taken the rule %(name)s. The list follows within seconds.")
            messages.success(request, said % {"cluster": cluster.name, "name": wanted.name})
            return htmx.redirect(request, "taint-list")
    form.put("looked", blast.digest)
    if rule is not None and form.non_field_errors():
        # Perhaps somebody changed it: sent again, it is decided with what the page shows now.
        form.put("seen_version", rule.resource_version)
    return _page(request, form, rule=rule, blast=blast)


def _page(
    request: HttpRequest,
    form: RuleForm,
    *,
    rule: DeviceTaintRule | None = None,
    blast: Blast | None = None,
) -> HttpResponse:
    clusters = Cluster.objects.filter(enabled=True).order_by("name")
    context: dict[str, Any] = {
        "form": form,
        "rule": rule,
        "drivers": Pool.objects.order_by("driver")
        .values_list("driver", flat=True)
        .distinct()[:DRIVERS_OFFERED],
        "not_served": [] if rule else [(c, served) for c in clusters if not (served := serving(c))],
        **(_blast_context(blast) if blast else {}),
    }
    if blast is not None and blast.selects_all:
        context["confirm_name"] = blast.coverage.cluster.name
    status = 422 if form.is_bound and form.errors else 200
    return htmx.render(request, "inventory/taint_rule_form.html", context, status=status)


def _blast(cluster: Cluster, wanted: WantedRule, *, instead_of: str = "") -> Blast:
    now = timezone.now()
    return blast_of(
        cluster=cluster, selectors=[wanted.selector], taint=wanted.taint, now=now, instead_of=instead_of,
        coverage=coverage_of(cluster, cluster.streams.all(), now=now),
    )  # fmt: skip


def _blast_context(blast: Blast) -> dict[str, Any]:
    return {
        "blast": blast,
        "evicted": blast.evicted[:PODS_SHOWN],
        "more_evicted": max(len(blast.evicted) - PODS_SHOWN, 0),
        "staying": blast.staying[:PODS_SHOWN],
        "waiting": blast.waiting[:PODS_SHOWN],
        "more_waiting": max(len(blast.waiting) - PODS_SHOWN, 0),
        "by_project": tally(blast.evicted),
    }


def _as_wanted(rule: DeviceTaintRule) -> WantedRule:
    return WantedRule(
        name=rule.name,
        selector=Selector(rule.driver, rule.pool_name, rule.device_name),
        taint=Taint(rule.key, rule.value, rule.effect),
    )


def _rule_or_404(cluster: str, name: str) -> DeviceTaintRule:
    found = DeviceTaintRule.objects.select_related("cluster").filter(cluster__name=cluster, name=name).first()
    if found is None:
        raise Http404
    return found


def _chosen(request: HttpRequest, name: str, offered: Any) -> str:
    given = request.GET.get(name, "")
    return given if given in offered else ""
