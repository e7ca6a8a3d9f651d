"""Webhooks of persons and of projects: made, tried out, given a new secret, switched off and on, removed."""

import socket
from collections.abc import Collection
from datetime import datetime
from urllib.parse import urlsplit

from cryptography.fernet import InvalidToken
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Coalesce
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from portal.accounts.audit import record
from portal.accounts.models import Delivery, Membership, Project, User, Webhook
from portal.accounts.notifications import calling, outbox, signing, targets, turns
from portal.accounts.notifications.insiders import may_still_hear
from portal.accounts.notifications.kinds import Channel, Kind
from portal.accounts.notifications.signals import deliveries_due
from portal.accounts.notifications.telling import payload, tell
from portal.accounts.notifications.texts import Text, as_written

MOST = 5
GONE = 410


class UnableToChangeWebhook(ValueError):
    """Why it stays as it was; `field` names the input, "" the whole."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


def add_webhook(
    *,
    url: str,
    actor: User,
    now: datetime,
    permitted: Collection[str],
    project: Project | None = None,
    source_ip: str | None = None,
) -> tuple[Webhook, str]:
    """A new one for `actor`, or for a project that they lead, and its secret, which nobody is shown again.
    Raises UnableToChangeWebhook. Whether its name can be resolved shows the first call, not this."""
    try:
        targets.check(url, permitted=permitted)
    except targets.UnableToReach as unable:
        raise UnableToChangeWebhook("url", str(unable.said)) from None
    owner = {"project": project} if project is not None else {"person": actor}
    secret = signing.new_secret()
    with transaction.atomic():
        # Of two that are made at once, the second one counts the first.
        User.objects.select_for_update().get(pk=actor.pk)
        if Webhook.objects.filter(**owner).count() >= MOST:
            raise UnableToChangeWebhook(
                "", _("There are %(count)s webhooks already; remove one first.") % {"count": MOST}
            )
        if Webhook.objects.filter(**owner, url=url).exists():
            raise UnableToChangeWebhook("url", _("This address is told already."))
        hook = Webhook.objects.create(
            url=url, secret=signing.seal(secret), created_by=actor, created_at=now, **owner
        )
        _record(hook, "webhook.create", actor=actor, now=now, ip=source_ip)
    return hook, secret


def remove_webhook(*, hook: Webhook, actor: User, now: datetime, source_ip: str | None = None) -> None:
    """It is told no more, and what it was told is forgotten."""
    with transaction.atomic():
        _record(hook, "webhook.delete", actor=actor, now=now, ip=source_ip)
        hook.delete()


def renew_secret(*, hook: Webhook, actor: User, now: datetime, source_ip: str | None = None) -> str:
    """A new secret; the old one signs nothing any more."""
    secret = signing.new_secret()
    with transaction.atomic():
        Webhook.objects.filter(pk=hook.pk).update(secret=signing.seal(secret))
        _record(hook, "webhook.secret", actor=actor, now=now, ip=source_ip)
    return secret


def switch(*, hook: Webhook, on: bool, actor: User, now: datetime, source_ip: str | None = None) -> None:
    """Told, or not, from now on. What failed before counts no more."""
    with transaction.atomic():
        changed = Webhook.objects.filter(pk=hook.pk, disabled_at__isnull=not on).update(
            disabled_at=None if on else now, failing_since=None, failures=0, rests_until=None
        )
        if changed:
            action = "webhook.enable" if on else "webhook.disable"
            _record(hook, action, actor=actor, now=now, ip=source_ip)


def try_out(*, hook: Webhook, actor: User, now: datetime, source_ip: str | None = None) -> Delivery:
    """Send a message that says that it is a test; like any other it goes through the outbox."""
    with transaction.atomic():
        delivery = Delivery.objects.create(
            channel=Channel.WEBHOOK,
            webhook=hook,
            kind="test",
            key=f"test:{now.isoformat()}:{actor.pk}",
            payload=payload(
                kind="test",
                subject=Text(gettext_noop("A test: if you can verify the signature, all is well.")),
                body=None,
                url=reverse("webhook-detail", args=[hook.key]),
                project=hook.project,
                facts={},
                now=now,
                language=actor.language,
            ),
            due_at=now,
            created_at=now,
        )
        _record(hook, "webhook.test", actor=actor, now=now, ip=source_ip)
        transaction.on_commit(lambda: deliveries_due.send(Delivery))
    return delivery


def try_again(*, delivery: Delivery, actor: User, now: datetime, source_ip: str | None = None) -> bool:
    """Another attempt at a message, at once. Returns whether there is one: not for what has arrived."""
    hook = delivery.webhook
    assert hook is not None, "only webhooks are tried again by hand"
    with transaction.atomic():
        changed = outbox.again(delivery, now=now)
        if changed:
            # Whoever presses the button knows better than the desk.
            Webhook.objects.filter(pk=hook.pk).update(rests_until=None)
            _record(hook, "webhook.retry", actor=actor, now=now, ip=source_ip)
            transaction.on_commit(lambda: deliveries_due.send(Delivery))
    return changed


def deliver(
    delivery: Delivery,
    *,
    now: datetime,
    permitted: Collection[str],
    resolve: targets.Resolve = socket.getaddrinfo,
    whole_seconds: float = calling.WHOLE_SECONDS,
) -> None:
    """Call for a delivery that was taken from the outbox."""
    hook = delivery.webhook
    assert hook is not None, "a call has a webhook"
    if not _may_hear(hook) or (hook.disabled_at is not None and delivery.kind != "test"):
        outbox.skipped([delivery], now=now, why=Text(gettext_noop("The webhook is switched off.")))
        return
    if not may_still_hear(delivery):
        outbox.skipped([delivery], now=now, why=outbox.gone())
        return
    try:
        secret = signing.unseal(hook.secret)
    except InvalidToken:
        answer = calling.Answer(
            None, Text(gettext_noop("Its secret can no longer be decrypted: make a new one."))
        )
    else:
        answer = calling.call(
            url=hook.url,
            secret=secret,
            message_id=str(delivery.message_id),
            payload=delivery.payload or {},
            now=now,
            permitted=permitted,
            resolve=resolve,
            whole_seconds=whole_seconds,
        )
    if answer.arrived:
        with transaction.atomic():
            outbox.succeeded([delivery], now=now, status=answer.status)
            Webhook.objects.filter(pk=hook.pk).exclude(failures=0).update(
                failures=0, failing_since=None, rests_until=None
            )
        return
    _failed(delivery, hook, answer, now=now)


def _failed(delivery: Delivery, hook: Webhook, answer: calling.Answer, *, now: datetime) -> None:
    """Later again; a webhook to which nothing came through for as long as one message was tried is switched
    off, and so is one that says itself that it is gone."""
    why = answer.said or Text(gettext_noop("It did not arrive."))
    # Who presses the button wants to know now; nobody waits for a test.
    final = delivery.kind == "test" or answer.status == GONE
    with transaction.atomic():
        Webhook.objects.filter(pk=hook.pk).update(
            failures=F("failures") + 1, failing_since=Coalesce("failing_since", now)
        )
        given_up = outbox.failed([delivery], now=now, why=why, status=answer.status, final=final)
        hook.refresh_from_db()
        if delivery.kind != "test":
            pause = outbox.PAUSES[min(hook.failures, len(outbox.PAUSES)) - 1]
            turns.rest(hook, now=now, pause=pause, answered=answer.status is not None)
        silent = hook.failing_since is not None and hook.failing_since <= delivery.created_at + outbox.LEASE
        if given_up and delivery.kind != "test":
            if silent or answer.status == GONE:
                _switch_off(hook, why, now=now)
            else:
                _tell_given_up(hook, why, now=now)


def _switch_off(hook: Webhook, why: Text, *, now: datetime) -> None:
    if not Webhook.objects.filter(pk=hook.pk, disabled_at=None).update(disabled_at=now):
        return
    _record(hook, "webhook.give-up", actor=None, now=now, ip=None)
    tell(
        people=_owners(hook),
        kind=Kind.DESK,
        subject=Text(
            gettext_noop("The webhook to %(host)s is switched off, since nothing arrives there."),
            host=as_written(host_of(hook)),
        ),
        body=why,
        url=reverse("webhook-detail", args=[hook.key]),
        project=hook.project,
        key=f"webhook-off:{hook.key}:{now.isoformat()}",
        now=now,
    )


def _tell_given_up(hook: Webhook, why: Text, *, now: datetime) -> None:
    """Once a day: others of its messages arrive."""
    tell(
        people=_owners(hook),
        kind=Kind.DESK,
        subject=Text(
            gettext_noop("A message to the webhook at %(host)s was given up."), host=as_written(host_of(hook))
        ),
        body=why,
        url=reverse("webhook-detail", args=[hook.key]),
        project=hook.project,
        key=f"webhook-lost:{hook.key}:{now.date().isoformat()}",
        now=now,
    )


def host_of(hook: Webhook) -> str:
    """What may be told of its address: the path may be a secret of the receiver's."""
    return urlsplit(hook.url).netloc


def _owners(hook: Webhook) -> list[User]:
    if hook.person is not None:
        return [hook.person]
    leads = Membership.objects.filter(project=hook.project, role=Membership.Role.LEAD)
    return [row.user for row in leads.select_related("user")]


def _may_hear(hook: Webhook) -> bool:
    """Who left the desk, and a project that is archived, is told nothing more."""
    if hook.person is not None:
        return hook.person.is_active
    return hook.project is not None and hook.project.archived_at is None


def _record(hook: Webhook, action: str, *, actor: User | None, now: datetime, ip: str | None) -> None:
    record(
        now=now,
        actor=actor,
        action=action,
        target=hook,
        target_id=str(hook.key),
        target_name=host_of(hook),
        project=hook.project,
        source_ip=ip,
    )
