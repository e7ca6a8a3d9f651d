"""Signing in and out, the signed-in person's own pages, and the audit trail."""

from allauth.account.urls import urlpatterns as allauth_patterns
from django.urls import include, path

from portal.accounts.views import audit, profile, tokens

# What django-allauth brings for addresses that have to be confirmed, phones and codes is not offered here.
OFFERED = {
    "account_login",
    "account_logout",
    "account_inactive",
    "account_signup",  # says that it is closed
    "account_change_password",
    "account_reauthenticate",
}

urlpatterns = [
    path("accounts/", include([pattern for pattern in allauth_patterns if pattern.name in OFFERED])),
    path("profile/", profile.profile, name="profile"),
    path("language/", profile.choose_language, name="set_language"),
    path("tokens/", tokens.token_list, name="token-list"),
    path("tokens/<str:key>/revoke/", tokens.token_revoke, name="token-revoke"),
    path("audit/", audit.audit_list, name="audit-list"),
    path("audit.csv", audit.audit_export, name="audit-export"),
]
