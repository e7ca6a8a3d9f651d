"""The notifications of who is signed in, and what they wait for."""

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from claims.models import Mute
from claims.waiting import holders as asking_holder
from claims.waiting import watches
from portal import access, htmx
from portal.accounts.models import Notification
from portal.accounts.notifications import inbox
from portal.accounts.notifications.channels import offered_kinds
from portal.accounts.notifications.kinds import Kind

PAGE_SIZE = 30


@require_safe
def notification_list(request: HttpRequest) -> HttpResponse:
    """Unread first, narrowed by kind."""
    person = access.person(request)
    kind = request.GET.get("kind", "")
    kind = kind if kind in Kind.values else ""
    page = Paginator(inbox.inbox(person, kind=kind), PAGE_SIZE).get_page(request.GET.get("page"))
    mutes = list(Mute.objects.filter(person=person).select_related("muted").order_by("pk"))
    names = asking_holder.called([row.muted for row in mutes], reader=person) if mutes else {}
    context = {
        "page_obj": page,
        "rows": [(row, _label(row)) for row in page],
        "kind": kind,
        "kinds": offered_kinds(person),
        "watches": watches.watches_of(person, now=timezone.now()),
        "mutes": [(row, names[row.muted_id]) for row in mutes],
        "any_unread": any(row.read_at is None for row in page),
    }
    return htmx.render(request, "pages/notifications.html", context)


def _label(row: Notification) -> str:
    """A kind that this version does not know is called by its name."""
    return str(Kind(row.kind).label) if row.kind in Kind.values else row.kind
