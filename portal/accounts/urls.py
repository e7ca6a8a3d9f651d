"""The signed-in person's own pages, and the audit trail."""

from django.urls import path

from portal.accounts.views import audit, profile, tokens

urlpatterns = [
    path("profile/", profile.profile, name="profile"),
    path("language/", profile.choose_language, name="set_language"),
    path("tokens/", tokens.token_list, name="token-list"),
    path("tokens/<str:key>/revoke/", tokens.token_revoke, name="token-revoke"),
    path("audit/", audit.audit_list, name="audit-list"),
    path("audit.csv", audit.audit_export, name="audit-export"),
]
