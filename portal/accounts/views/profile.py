"""What somebody may set about themselves."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from portal import access, htmx
from portal.accounts.audit import source_ip
from portal.accounts.forms import ProfileForm
from portal.accounts.models import Membership, User
from portal.accounts.people import change_profile


@require_http_methods(["GET", "HEAD", "POST"])
def profile(request: HttpRequest) -> HttpResponse:
    """Name, language and time zone; the roles that one has."""
    user = access.person(request)
    # A copy: a form that does not validate must not show its half-set values as the person's name above.
    form = ProfileForm(request.POST or None, instance=User.objects.get(pk=user.pk))
    if request.method == "POST" and form.is_valid():
        change_profile(
            user=User.objects.get(pk=user.pk),
            now=timezone.now(),
            source_ip=source_ip(request),
            **{name: form.cleaned_data[name] for name in form.Meta.fields},
        )
        # In the language that was just chosen.
        with translation.override(form.cleaned_data["language"] or translation.get_language()):
            messages.success(request, _("Your profile is saved."))
        return htmx.redirect(request, "profile")
    memberships = Membership.objects.filter(user=user).select_related("project").order_by("project__name")
    return htmx.render(request, "accounts/profile.html", {"form": form, "memberships": memberships})
