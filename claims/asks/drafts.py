"""Drafts: requests that a person has begun and not sent. Nobody else sees them, nothing of them is judged.
Sent, a draft becomes a request with its key, and is gone."""

import uuid
from collections.abc import Mapping
from datetime import datetime

from django.db import transaction
from django.http import Http404
from django.utils.translation import gettext as _

from claims.asks.again import as_text
from claims.asks.reading import WHOLE, WrongValue, WrongValues, read_text
from claims.models import Draft, Request
from portal.accounts import audit
from portal.accounts.models import User

MAX_OF_A_PERSON = 50
# The longest fields: a purpose of 1,000 characters, an expression of 10 KiB, lines of tolerations.
MAX_VALUE = 12_000


class UnableToKeep(WrongValues):
    """`errors` maps field names (or WHOLE) to messages for people."""


def keep(
    *,
    user: User,
    values: Mapping[str, object],
    now: datetime,
    key: uuid.UUID | None = None,
    source_ip: str | None = None,
) -> Draft:
    """Keep `values` (of a form or of REST) as they are; with the key of a draft of theirs, in its place.
    Raises UnableToKeep."""
    errors: dict[str, list[str]] = {}
    kept = as_text(values)
    for field in kept:
        try:
            kept[field] = read_text(kept, field, limit=MAX_VALUE)
        except WrongValue as error:
            errors.setdefault(field, []).append(str(error))
    with transaction.atomic():
        # One person's drafts are written one after the other: their number is bounded.
        User.objects.select_for_update().get(pk=user.pk)
        draft = Draft.objects.filter(key=key).first() if key else None
        if (draft is not None and draft.owner_id != user.pk) or (
            draft is None and key and Request.objects.filter(key=key).exists()
        ):
            errors["key"] = [_("This key is taken; choose a new one.")]
        if draft is None and Draft.objects.filter(owner=user).count() >= MAX_OF_A_PERSON:
            errors[WHOLE] = [_("You have %(limit)s drafts; delete one first.") % {"limit": MAX_OF_A_PERSON}]
        if errors:
            raise UnableToKeep(errors)
        if draft is None:
            draft = Draft(owner=user, key=key or uuid.uuid4(), created_at=now)
        draft.values, draft.changed_at = kept, now
        draft.save()
        _record("keep", draft, user=user, now=now, ip=source_ip)
    return draft


def discard(*, draft: Draft, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Forget it."""
    with transaction.atomic():
        _record("discard", draft, user=user, now=now, ip=source_ip)
        draft.delete()


def get_draft_or_404(user: User, key: uuid.UUID) -> Draft:
    """The draft, if it is the person's own: nobody else knows of it."""
    draft = Draft.objects.filter(key=key, owner=user).first()
    if draft is None:
        raise Http404
    return draft


def _record(verb: str, draft: Draft, *, user: User, now: datetime, ip: str | None) -> None:
    # What it says is its owner's own until it is sent.
    audit.record(
        now=now, actor=user, action=f"draft.{verb}", target=draft, target_id=str(draft.key), source_ip=ip
    )
