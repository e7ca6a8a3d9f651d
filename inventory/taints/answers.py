"""What holders answer who are asked to leave, and who may see and say what of it."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from inventory.models import Drain, DrainHolder
from inventory.taints import news
from inventory.taints.drains import LIVING
from inventory.taints.history import note
from inventory.taints.maintenance import FARTHEST, as_utc
from inventory.taints.places import text_of
from portal import access, texts
from portal.accounts import audit
from portal.accounts.models import Project, User
from portal.accounts.notifications.texts import Text

Answer = DrainHolder.Answer
MAX_NOTE = 500


class UnableToAnswer(Exception):
    """`field` is "answer", "by", "note" or ""."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


def get_drain_or_404(user: User, key: UUID) -> Drain:
    """The drain, for those who read everything and for members of projects that hold something there."""
    drain = Drain.objects.select_related("cluster", "created_by", "maintenance").filter(key=key).first()
    if drain is None:
        raise Http404
    if not access.may_read_everything(user) and not holders_for(user, drain).exists():
        raise Http404
    return drain


def holders_for(user: User, drain: Drain) -> QuerySet[DrainHolder]:
    """Those of its holders that `user` may see: all, or those of their projects."""
    rows = drain.holders.select_related("project", "answered_by").order_by("gone_at", "namespace", "name")
    if access.may_read_everything(user):
        return rows
    return rows.filter(project__in=Project.objects.all().detailed_to(user))


def get_holder_or_404(user: User, key: UUID, *, for_write: bool = False) -> DrainHolder:
    """One holder; a stranger gets 404, and who only reads may not answer."""
    holder = (
        DrainHolder.objects.select_related("drain__cluster", "drain__created_by", "project")
        .filter(key=key)
        .first()
    )
    if holder is None or not holders_for(user, holder.drain).filter(pk=holder.pk).exists():
        raise Http404
    if for_write and not may_answer(user, holder):
        raise PermissionDenied(_("You may look at this project but not act for it."))
    return holder


def may_answer(user: User, holder: DrainHolder) -> bool:
    """Who works in the project that holds it; administrators for everybody."""
    if holder.project is None:
        return access.may_administer(user)
    return access.may_work_in(user, holder.project)


def answerable(user: User, holders: Iterable[DrainHolder]) -> set[int]:
    """Which of them `may_answer` says yes to, in one query."""
    workable = set(Project.objects.all().workable_by(user).values_list("pk", flat=True))
    everybody = access.may_administer(user)
    return {holder.pk for holder in holders if everybody or holder.project_id in workable}


def answer(
    *,
    holder: DrainHolder,
    said: str,
    by: datetime | None,
    note_: str,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """Say until when one is gone, that one is done, or that one cannot leave. Raises UnableToAnswer."""
    if said not in (Answer.BY, Answer.DONE, Answer.CANNOT):
        raise UnableToAnswer("answer", _("Choose an answer."))
    try:
        words = texts.plain(note_)
    except texts.UncleanText as unclean:
        raise UnableToAnswer("note", unclean.message) from None
    if len(words) > MAX_NOTE:
        raise UnableToAnswer("note", _("At most %(most)d characters.") % {"most": MAX_NOTE})
    if said == Answer.CANNOT and not words:
        raise UnableToAnswer("note", _("Say why: somebody has to decide."))
    by = _time(by, now=now) if said == Answer.BY else None
    if holder.drain.state not in LIVING:
        raise UnableToAnswer("", _("It is over: nobody needs an answer any more."))
    before = {"answer": holder.answer, "by": holder.answer_by.isoformat() if holder.answer_by else None}
    with transaction.atomic():
        holder.answer, holder.answer_by, holder.answer_note = said, by, words
        holder.answered_by, holder.answered_at = actor, now
        holder.save(update_fields=["answer", "answer_by", "answer_note", "answered_by", "answered_at"])
        what = f"{holder}: {Answer(said).label}" + (f" ({by:%Y-%m-%d %H:%M} UTC)" if by else "")
        note(holder.drain, "answered", now=now, actor=actor, words=what)
        audit.record(
            now=now, actor=actor, action="drain.answer", target=holder.drain,
            target_id=str(holder.drain.key), project=holder.project, before=before,
            after={"answer": said, "by": by.isoformat() if by else None}, source_ip=source_ip,
        )  # fmt: skip
        subject = Text(
            gettext_noop("%(holder)s on %(place)s: %(answer)s."),
            holder=str(holder), place=text_of(holder.drain), answer=Answer(said).label,
        )  # fmt: skip
        if holder.drain.created_by_id != actor.pk:
            news.tell_owner(holder.drain, subject, now=now, key=f"answer:{holder.pk}:{now.isoformat()}")


def _time(by: datetime | None, *, now: datetime) -> datetime:
    if by is None:
        raise UnableToAnswer("by", _("Say until when."))
    by = as_utc(by)
    if by <= now:
        raise UnableToAnswer("by", _("This time has passed."))
    if by > now + FARTHEST:
        raise UnableToAnswer("by", _("That is too far ahead: at most two years."))
    return by
