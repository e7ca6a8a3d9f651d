"""What happens elsewhere to people and belongs into the audit trail."""

from typing import Any

from allauth.account.signals import password_changed, password_set
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone

from portal.accounts.audit import record, source_ip
from portal.accounts.models import User


@receiver((password_changed, password_set))
def password_was_changed(*, request: HttpRequest, user: User, **_: Any) -> None:
    """That it was changed and from where; never what it is."""
    record(
        now=timezone.now(), actor=user, action="person.password", target=user, source_ip=source_ip(request)
    )
