"""What administrators set: where a cluster's Prometheus is, and what it is asked. Every change is recorded;
tokens never are."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from urllib.parse import SplitResult, urlsplit

import urllib3
from django.db import transaction
from django.db.models import Max
from django.utils import translation
from django.utils.translation import gettext as _

from inventory import sealing
from inventory.models import Cluster, MetricQuery, MetricSource
from inventory.telemetry.asking import Address, Prometheus
from inventory.telemetry.defaults import DEFAULTS
from inventory.telemetry.expressions import LABEL, PLACE
from inventory.telemetry.problems import UnableToAsk
from portal.accounts import audit
from portal.accounts.models import User
from portal.kube.errors import BadCredentials
from portal.texts import UncleanText, plain

MAX_URL, MAX_TOKEN, MAX_CA, MAX_EXPRESSION = 500, 8_000, 64_000, 4_000
MAX_NAME = 120
MAX_QUERIES = 40
MAX_IDLE_HOURS = 24 * 90
KEPT_DAYS = (2, 1_100)


class UnableToConfigure(ValueError):
    """`field` is the one at fault ("" = none of them), `message` says why, for people."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


@dataclass(frozen=True, kw_only=True)
class WantedSource:
    """`token` None = as it is, "" = none."""

    url: str
    token: str | None = None
    ca: str = ""
    label: str = ""
    label_value: str = ""
    enabled: bool = True
    idle_percent: int = 5
    idle_hours: int = 0
    keep_days: int = 60


@dataclass(frozen=True, kw_only=True)
class WantedQuery:
    name: str
    expression: str
    kind: str = MetricQuery.Kind.DRIVERS
    unit: str = MetricQuery.Unit.NUMBER
    label: str = ""
    node_label: str = ""
    enabled: bool = True


# --- the source -------------------------------------------------------------------------------------


def checked(wanted: WantedSource, *, source: MetricSource | None) -> WantedSource:
    """The same in its one form. Raises UnableToConfigure."""
    url = _url(wanted.url)
    token = wanted.token if wanted.token is None else _clean("token", wanted.token, MAX_TOKEN)
    if token is not None and any(c.isspace() or not c.isascii() for c in token):
        raise UnableToConfigure("token", _("A token has no blanks, and only characters of ASCII."))
    if (
        token is None
        and source is not None
        and source.token_encrypted
        and _origin(url) != _origin(source.url)
    ):
        raise UnableToConfigure(
            "token", _("The address is another: type the token again, so that none is sent where it was not.")
        )
    ca = _clean("ca", wanted.ca, MAX_CA)
    if ca:
        _check_authority(url, ca)
    label, value = _clean("label", wanted.label, 63), _clean("label_value", wanted.label_value, 253)
    if label and not LABEL.fullmatch(label):
        raise UnableToConfigure("label", _("A label has letters, digits and underscores only."))
    if bool(label) != bool(value):
        raise UnableToConfigure(
            "label_value" if label else "label", _("Give the label and its value, or neither.")
        )
    if not 1 <= wanted.idle_percent <= 100:
        raise UnableToConfigure("idle_percent", _("Between 1 and 100."))
    if not 0 <= wanted.idle_hours <= MAX_IDLE_HOURS:
        raise UnableToConfigure("idle_hours", _("Between 0 and %(most)d.") % {"most": MAX_IDLE_HOURS})
    if not KEPT_DAYS[0] <= wanted.keep_days <= KEPT_DAYS[1]:
        raise UnableToConfigure(
            "keep_days",
            _("Between %(least)d and %(most)d.") % {"least": KEPT_DAYS[0], "most": KEPT_DAYS[1]},
        )
    return WantedSource(
        url=url,
        token=token,
        ca=ca,
        label=label,
        label_value=value,
        enabled=wanted.enabled,
        idle_percent=wanted.idle_percent,
        idle_hours=wanted.idle_hours,
        keep_days=wanted.keep_days,
    )


def save(
    *, cluster: Cluster, wanted: WantedSource, actor: User, now: datetime, source_ip: str | None = None
) -> MetricSource:
    """Make this the cluster's source; a new one begins with the default queries. It is asked anew at once.
    Raises UnableToConfigure; nothing is changed then."""
    with transaction.atomic():
        # Two who save at once are one after the other.
        Cluster.objects.select_for_update().only("pk").get(pk=cluster.pk)
        source = MetricSource.objects.filter(cluster=cluster).first()
        new = source is None
        wanted = checked(wanted, source=source)
        before = _told(source) if source else {}
        source = source or MetricSource(cluster=cluster)
        for name in (
            "url",
            "ca",
            "label",
            "label_value",
            "enabled",
            "idle_percent",
            "idle_hours",
            "keep_days",
        ):
            setattr(source, name, getattr(wanted, name))
        if wanted.token is not None:
            source.token_encrypted = _sealed(wanted.token) if wanted.token else None
        source.changed_at, source.changed_by = now, actor
        source.due_at, source.failures, source.problem = None, 0, None
        source.save()
        if new:
            _begin(source)
        was, is_now = audit.changes(before, _told(source))
        if wanted.token:
            is_now = {**(is_now or {}), "token": "…"}
        if is_now is not None or was is not None:
            _record(source, "monitoring.change", actor=actor, now=now, ip=source_ip, before=was, after=is_now)
    return source


def remove(*, source: MetricSource, actor: User, now: datetime, source_ip: str | None = None) -> None:
    """Forget the source and its queries. What was measured stays until it is as old as others."""
    with transaction.atomic():
        _record(
            source, "monitoring.remove", actor=actor, now=now, ip=source_ip, before=_told(source), after=None
        )
        source.delete()


def _begin(source: MetricSource) -> None:
    # Whose names are shown in the language of who reads: `showing.title_of`.
    with translation.override("en"):
        MetricQuery.objects.bulk_create(
            MetricQuery(
                source=source,
                kind=default.kind,
                name=str(default.name)[:MAX_NAME],
                expression=default.expression,
                unit=default.unit,
                label=default.label,
                node_label=default.node_label,
                enabled=default.enabled,
                position=position,
            )
            for position, default in enumerate(DEFAULTS)
        )


def _told(source: MetricSource) -> dict[str, Any]:
    """What the audit trail keeps: never the token."""
    names = ("url", "label", "label_value", "enabled", "idle_percent", "idle_hours", "keep_days")
    return {name: getattr(source, name) for name in names} | {
        "ca": bool(source.ca),
        "with_token": source.token_encrypted is not None,
    }


def _sealed(token: str) -> bytes:
    try:
        return sealing.seal(token)
    except BadCredentials:
        raise UnableToConfigure(
            "token",
            _("Tokens cannot be stored: CLAIMDESK_CREDENTIAL_KEYS is not set, or holds no valid keys."),
        ) from None


def _check_authority(url: str, ca: str) -> None:
    if urlsplit(url).scheme != "https":
        raise UnableToConfigure("ca", _("Only an address that begins with https:// has a certificate."))
    try:
        Prometheus(Address(url=url, ca=ca)).close()
    except UnableToAsk as unable:
        raise UnableToConfigure("ca", f"{unable.problem.said} {unable.problem.cure}") from None


def _url(text: str) -> str:
    said = _("Write an address such as https://prometheus.example.org or http://prometheus.monitoring:9090.")
    url = _clean("url", text, MAX_URL).rstrip("/").removesuffix("/api/v1").rstrip("/")
    if not url.isascii() or any(c.isspace() or c in '\\"<>^`{|}' for c in url):
        raise UnableToConfigure("url", said)
    try:
        parts: SplitResult = urlsplit(url)
        port = parts.port
        # What asks is stricter than that.
        urllib3.util.parse_url(url)
    except ValueError:
        raise UnableToConfigure("url", said) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise UnableToConfigure("url", said)
    if "@" in parts.netloc:
        raise UnableToConfigure(
            "url", _("Leave user and password out of the address: a token is typed below.")
        )
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise UnableToConfigure("url", _("Leave out what follows “?” or “#”."))
    return url


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.casefold()


# --- queries ----------------------------------------------------------------------------------------


def save_query(
    *,
    source: MetricSource,
    wanted: WantedQuery,
    query: MetricQuery | None = None,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
) -> MetricQuery:
    """Add a query, or change one: what it brought before is forgotten, use that it measured stays. Raises
    UnableToConfigure."""
    wanted = checked_query(wanted, source=source)
    with transaction.atomic():
        MetricSource.objects.select_for_update().only("pk").get(pk=source.pk)
        if query is None:
            if source.queries.count() >= MAX_QUERIES:
                raise UnableToConfigure("", _("At most %(most)d queries.") % {"most": MAX_QUERIES})
            last = source.queries.aggregate(last=Max("position"))["last"]
            query = MetricQuery(source=source, position=(last or 0) + 1)
        before = _query_told(query) if query.pk else {}
        changed = any(getattr(query, name) != value for name, value in asdict(wanted).items())
        for name, value in asdict(wanted).items():
            setattr(query, name, value)
        if changed:
            query.asked_at = query.answered_at = query.problem = None
            query.values, query.strangers, query.samples, query.matched = [], [], 0, 0
        query.save()
        MetricSource.objects.filter(pk=source.pk).update(due_at=None)
        was, is_now = audit.changes(before, _query_told(query))
        if is_now is not None or was is not None:
            _record(source, "monitoring.query", actor=actor, now=now, ip=source_ip, before=was, after=is_now)
    return query


def remove_query(*, query: MetricQuery, actor: User, now: datetime, source_ip: str | None = None) -> None:
    """It is no longer asked; use that it measured stays."""
    with transaction.atomic():
        before = _query_told(query)
        _record(
            query.source, "monitoring.query", actor=actor, now=now, ip=source_ip, before=before, after=None
        )
        query.delete()


def checked_query(wanted: WantedQuery, *, source: MetricSource) -> WantedQuery:
    """The same in its one form. Raises UnableToConfigure."""
    name = " ".join(_clean("name", wanted.name, MAX_NAME).split())
    expression = _clean("expression", wanted.expression, MAX_EXPRESSION)
    if not name:
        raise UnableToConfigure("name", _("Give it a name."))
    if not expression:
        raise UnableToConfigure("expression", _("Write a query in PromQL."))
    if source.label and PLACE not in expression:
        raise UnableToConfigure(
            "expression",
            _("Write $cluster where the label of the cluster belongs: %(example)s.")
            % {"example": 'up{job="kubelet", $cluster}'},
        )
    if wanted.kind not in MetricQuery.Kind.values:
        raise UnableToConfigure(
            "kind", _("Choose one of: %(choices)s.") % {"choices": _listed(MetricQuery.Kind)}
        )
    if wanted.unit not in MetricQuery.Unit.values:
        raise UnableToConfigure(
            "unit", _("Choose one of: %(choices)s.") % {"choices": _listed(MetricQuery.Unit)}
        )
    labels = {}
    for field in ("label", "node_label"):
        labels[field] = _clean(field, getattr(wanted, field), 63)
        if labels[field] and not LABEL.fullmatch(labels[field]):
            raise UnableToConfigure(field, _("A label has letters, digits and underscores only."))
    use = wanted.kind == MetricQuery.Kind.USE
    if use and not labels["label"]:
        raise UnableToConfigure("label", _("Name the label that says which device a sample is of."))
    return WantedQuery(
        name=name,
        expression=expression,
        kind=wanted.kind,
        # How busy a device is, is told in percent.
        unit=MetricQuery.Unit.PERCENT if use else wanted.unit,
        label=labels["label"],
        node_label=labels["node_label"] if wanted.kind != MetricQuery.Kind.DRIVERS else "",
        enabled=wanted.enabled,
    )


def _listed(choices: Any) -> str:
    return ", ".join(choices.values)


def _query_told(query: MetricQuery) -> dict[str, Any]:
    names = ("name", "kind", "expression", "unit", "label", "node_label", "enabled")
    return {name: getattr(query, name) for name in names}


# --- both -------------------------------------------------------------------------------------------


def _clean(field: str, text: str, limit: int) -> str:
    try:
        found = plain(text)
    except UncleanText as unclean:
        raise UnableToConfigure(field, unclean.message) from None
    if len(found) > limit:
        raise UnableToConfigure(field, _("At most %(limit)d characters.") % {"limit": limit})
    return found


def _record(
    source: MetricSource,
    action: str,
    *,
    actor: User,
    now: datetime,
    ip: str | None,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
) -> None:
    audit.record(
        now=now,
        actor=actor,
        action=action,
        target=source,
        target_kind="monitoring",
        target_name=source.cluster.name,
        before=before,
        after=after,
        source_ip=ip,
    )
