"""The keeping of the ledger: what its audits found, what is archived; and checking it now."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from claims import tasks
from claims.ledger.page import bound_now, kept
from portal import htmx
from portal.access import may_administer, person, require_administrator, require_reader_of_everything


@require_safe
@require_reader_of_everything
def history_ledger(request: HttpRequest) -> HttpResponse:
    """Whether every invariant held when it was last checked, cluster by cluster."""
    context = {
        "ledgers": kept(),
        "bound": bound_now(timezone.now()),
        "may_check": may_administer(person(request)),
    }
    return htmx.render(request, "claims/history_ledger.html", context)


@require_POST
@require_administrator
def history_ledger_check(request: HttpRequest) -> HttpResponse:
    """Have the workers check all ledgers now."""
    try:
        tasks.audit_ledgers.apply_async(expires=tasks.EXPIRES_BY_DAY)
    except (OperationalError, RedisError, OSError):
        messages.error(request, _("The queue cannot be reached; nothing was begun."))
    else:
        messages.success(request, _("The ledgers are being checked; this page tells what was found."))
    return htmx.redirect(request, "history-ledger")
