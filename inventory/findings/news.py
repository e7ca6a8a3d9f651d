"""Administrators hear of findings that have just been opened: once per evaluation of a cluster, however many
there are. What is only for information is not told."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext_noop
from django_stubs_ext import StrOrPromise

from inventory.models import Cluster, Finding
from inventory.models.findings import Severity
from portal.accounts.models import User
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text, as_written

# Kinds of finding that one notification lists.
LISTED = 5


def tell_of(
    *, cluster: Cluster, opened: Sequence[Finding], labels: Mapping[str, StrOrPromise], now: datetime
) -> None:
    """Within the transaction that opened them; `labels` say what each kind is called."""
    grave = [finding for finding in opened if finding.severity != Severity.INFO]
    if not grave:
        return
    if len(grave) == 1:
        subject = Text(
            gettext_noop("%(label)s: %(name)s on %(cluster)s"),
            label=labels[grave[0].kind],
            name=as_written(grave[0].name),
            cluster=as_written(cluster.name),
        )
        body, url = None, reverse("finding-detail", args=[grave[0].pk])
    else:
        subject = Text(
            gettext_noop("%(count)s new findings on %(cluster)s"),
            count=len(grave),
            cluster=as_written(cluster.name),
        )
        body = _list(grave, labels)
        url = f"{reverse('finding-list')}?{urlencode({'cluster': cluster.name})}"
    tell(
        people=User.objects.filter(is_administrator=True, is_active=True).order_by("pk"),
        kind=Kind.FINDING,
        subject=subject,
        body=body,
        url=url,
        key=f"findings:{cluster.pk}:{now.isoformat()}",
        facts={"cluster": cluster.name, "findings": len(grave)},
        now=now,
    )


def _list(findings: Sequence[Finding], labels: Mapping[str, StrOrPromise]) -> Text:
    counts = Counter(finding.kind for finding in findings).most_common(LISTED)
    lines = "\n".join(f"%(label{n})s: %(count{n})s" for n in range(len(counts)))
    values: dict[str, StrOrPromise | int] = {}
    for number, (kind, count) in enumerate(counts):
        values |= {f"label{number}": labels[kind], f"count{number}": count}
    return Text(lines, **values)
