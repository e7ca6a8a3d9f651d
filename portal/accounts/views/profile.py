"""What somebody may set about themselves."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST
from django.views.i18n import set_language

from portal import access, htmx
from portal.accounts.audit import source_ip
from portal.accounts.forms import ProfileForm
from portal.accounts.models import Membership, User
from portal.accounts.people import change_profile


@login_not_required
@require_POST
def choose_language(request: HttpRequest) -> HttpResponseBase:
    """The language menu: a cookie for everybody, and the profile of who is signed in."""
    language = request.POST.get("language", "")
    if isinstance(request.user, User) and language in dict(settings.LANGUAGES):
        user = User.objects.get(pk=request.user.pk)
        change_profile(
            user=user,
            first_name=user.first_name,
            last_name=user.last_name,
            language=language,
            time_zone=user.time_zone,
            now=timezone.now(),
            source_ip=source_ip(request),
        )
    # Django's own view sets the cookie and goes back, to our own addresses only.
    return set_language(request)


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
