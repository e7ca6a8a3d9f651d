"""What programs of finance's are told of money, by signed webhooks: a statement was closed, a closed one was
corrected, a credit note or an adjustment was agreed to.

Told within the transaction of what it is about, by the outbox of notifications, which signs, delivers and
tries again. The id of a message is made of what it tells: however often that is done, it is one message.
"""

import hashlib
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any

from django.db import transaction
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from claims.models import Adjustment, Charge, Statement, StatementHook, ToldCorrection
from claims.money.correcting import corrections_of
from claims.money.months import Month
from claims.money.statements import Line
from portal import access, money
from portal.accounts import audit
from portal.accounts.models import Delivery, Project, User, Webhook
from portal.accounts.notifications import addresses
from portal.accounts.notifications.kinds import Channel
from portal.accounts.notifications.signals import deliveries_due
from portal.accounts.notifications.texts import Text

CLOSED, CORRECTED = "statement.closed", "statement.corrected"
CREDIT, ADJUSTED = "credit-note.agreed", "adjustment.agreed"


def switch(*, hook: Webhook, on: bool, actor: User, now: datetime, source_ip: str | None = None) -> None:
    """Whether a webhook of the actor's is told of statements from now on."""
    with transaction.atomic():
        if on:
            _row, changed = StatementHook.objects.get_or_create(webhook=hook, defaults={"added_at": now})
        else:
            changed = bool(StatementHook.objects.filter(webhook=hook).delete()[0])
        if changed:
            audit.record(
                now=now,
                actor=actor,
                action="webhook.statements" if on else "webhook.no-statements",
                target=hook,
                target_id=str(hook.key),
                source_ip=source_ip,
            )


def closed(row: Statement, lines: Sequence[Line], *, now: datetime) -> None:
    """Tell that a statement was closed, with its totals and its digest."""
    totals: dict[str, int] = defaultdict(int)
    for line in lines:
        if line.minor is not None:
            totals[line.key.currency] += line.minor
    _tell(
        CLOSED,
        key=f"{CLOSED}:{row.pk}",
        said=gettext_noop("The statement of %(project)s for %(month)s is closed."),
        project=row.project,
        month=row.month,
        facts={
            "digest": row.digest,
            "totals": [
                _amount(Fraction(minor, _scale(code)), code) for code, minor in sorted(totals.items())
            ],
        },
        now=now,
    )


def agreed(row: Adjustment, *, now: datetime) -> None:
    """Tell that a credit note, or an additional amount, counts from now on."""
    kind = CREDIT if row.minor < 0 else ADJUSTED
    _tell(
        kind,
        key=f"{kind}:{row.pk}",
        said=gettext_noop("A credit note for %(project)s in %(month)s was agreed to.")
        if kind == CREDIT
        else gettext_noop("An additional amount for %(project)s in %(month)s was agreed to."),
        project=row.project,
        month=row.month,
        facts={
            "adjustment": row.pk,
            **_amount(Fraction(row.minor, _scale(row.currency)), row.currency),
            "reason": row.reason,
            "refers_to": row.refers_to.month if row.refers_to else None,
        },
        now=now,
    )


def corrections(*, month: Month, now: datetime) -> int:
    """Tell of what differs in the corrections of a closed month since it was last told; of how many projects.
    Called after every rating: what a worker did not get to tell, the next one finds."""
    found: dict[int | None, list[Charge]] = defaultdict(list)
    rows = corrections_of(month).select_related("project")
    for charge in rows.order_by("source", "month", "started_us"):
        found[charge.project_id].append(charge)
    subjects = {f"{pk or 0}:{month}": charges for pk, charges in found.items()}
    known = dict(
        ToldCorrection.objects.filter(subject__endswith=f":{month}").values_list("subject", "digest")
    )
    told = 0
    for subject in subjects.keys() | known.keys():
        charges = subjects.get(subject, [])
        digest = hashlib.sha256("".join(charge.content for charge in charges).encode()).hexdigest()
        if known.get(subject) != digest:
            _tell_corrections(subject, charges, digest, month=month, now=now)
            told += 1
    return told


def _tell_corrections(
    subject: str, charges: Sequence[Charge], digest: str, *, month: Month, now: datetime
) -> None:
    sums: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for charge in charges:
        sums[charge.month, charge.currency] += charge.fixed or 0
    project = Project.objects.filter(pk=int(subject.partition(":")[0])).first()
    with transaction.atomic():
        ToldCorrection.objects.get_or_create(subject=subject, defaults={"digest": "", "told_at": now})
        told = ToldCorrection.objects.select_for_update().get(subject=subject)
        if told.digest == digest:
            # Another worker was faster.
            return
        told.digest, told.told_at, told.revision = digest, now, told.revision + 1
        told.save()
        _tell(
            CORRECTED,
            key=f"{CORRECTED}:{subject}:{told.revision}",
            said=gettext_noop("The statement of %(project)s for %(month)s was corrected."),
            project=project,
            month=str(month),
            facts={
                "corrections": [
                    {"billed": billed, **_amount(exact, currency)}
                    for (billed, currency), exact in sorted(sums.items())
                ]
            },
            now=now,
        )


def _tell(
    kind: str,
    *,
    key: str,
    said: str,
    project: Project | None,
    month: str,
    facts: Mapping[str, Any],
    now: datetime,
) -> None:
    hooks = StatementHook.objects.filter(webhook__disabled_at=None, webhook__person__is_active=True)
    deliveries = []
    for row in hooks.select_related("webhook__person"):
        hook = row.webhook
        if hook.person is None or not access.may_see_costs_of_all(hook.person):
            continue
        with translation.override(hook.person.language or "en"):
            subject = str(Text(said, project=project.name if project else _("nobody known"), month=month))
        page = (
            reverse("statement-detail", args=[month, project.slug])
            if project
            else reverse("statement-nobody", args=[month])
        )
        deliveries.append(
            Delivery(
                channel=Channel.WEBHOOK,
                webhook=hook,
                kind=kind,
                key=key[:160],
                message_id=uuid.uuid5(hook.key, key),
                payload={
                    "type": kind,
                    "timestamp": now.isoformat(),
                    "data": {
                        "subject": subject,
                        "url": addresses.absolute(page),
                        "project": project.slug if project else None,
                        "month": month,
                        **facts,
                    },
                },
                due_at=now,
                created_at=now,
            )
        )
    if deliveries:
        Delivery.objects.bulk_create(deliveries, ignore_conflicts=True)
        transaction.on_commit(lambda: deliveries_due.send(Delivery))


def _amount(exact: Fraction, currency: str) -> dict[str, str]:
    return {
        "currency": currency,
        "amount": f"{money.rounded(exact, currency=currency):f}",
        "exact_numerator": str(exact.numerator),
        "exact_denominator": str(exact.denominator),
    }


def _scale(currency: str) -> int:
    return int(10 ** money.exponent(currency))
