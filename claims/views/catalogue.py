"""The catalogue: what researchers may ask for, what of it is free, and what it costs."""

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from claims.catalogue.offers import entries, entry_or_404, waiting_for
from claims.money.pricing import price_list
from portal import htmx
from portal.access import may_administer, may_read_everything, person
from portal.accounts.models import Project


@require_safe
def catalogue(request: HttpRequest) -> HttpResponse:
    """Every flavor that the reader may see; the numbers ask again every half minute."""
    user = person(request)
    context = {
        "entries": entries(user=user, prices=price_list(), now=timezone.now()),
        "can_request": Project.objects.all().workable_by(user).exists(),
        "may_administer": may_administer(user),
        "may_read_everything": may_read_everything(user),
    }
    return htmx.render(request, "claims/catalogue.html", context, partial="entries")


@require_safe
def flavor_detail(request: HttpRequest, slug: str) -> HttpResponse:
    """One flavor: its limits, who decides, and each cluster with how it is served there and why."""
    user = person(request)
    entry = entry_or_404(user=user, slug=slug, prices=price_list(), now=timezone.now())
    context = {
        "entry": entry,
        "flavor": entry.flavor,
        "waiting": waiting_for([entry.flavor.pk])[entry.flavor.pk],
        "can_request": Project.objects.all().workable_by(user).exists(),
        "may_administer": may_administer(user),
    }
    return htmx.render(request, "claims/flavor_detail.html", context)
