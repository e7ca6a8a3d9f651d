"""Signing in and out, the signed-in person's own pages, people, and the audit trail."""

from allauth.account.urls import urlpatterns as allauth_patterns
from django.urls import include, path

from portal.accounts.mail import only_with_mail
from portal.accounts.oidc import views as oidc
from portal.accounts.views import (
    announcements,
    audit,
    invitations,
    notifications,
    people,
    profile,
    reauthentication,
    tokens,
    webhooks,
)

# What django-allauth brings for phones and codes by mail is not offered here.
OFFERED = {
    "account_login",
    "account_logout",
    "account_inactive",
    "account_signup",  # says that it is closed
    "account_change_password",
    "account_reauthenticate",
    "account_set_password",
}
# Only where the desk can send mail: see `mail.only_with_mail`.
BY_MAIL = {
    "account_email",
    "account_confirm_email",
    "account_email_verification_sent",
    "account_reset_password",
    "account_reset_password_done",
    "account_reset_password_from_key",
    "account_reset_password_from_key_done",
}
offered = [pattern for pattern in allauth_patterns if pattern.name in OFFERED]
by_mail = [only_with_mail(pattern) for pattern in allauth_patterns if pattern.name in BY_MAIL]

urlpatterns = [
    path("accounts/oidc/login/", oidc.oidc_login, name="oidc-login"),
    path("accounts/oidc/callback/", oidc.oidc_callback, name="oidc-callback"),
    path("accounts/oidc/<int:pk>/disconnect/", oidc.oidc_disconnect, name="oidc-disconnect"),
    path(
        "accounts/reauthenticate/impossible/",
        reauthentication.reauthentication_impossible,
        name="reauthentication-impossible",
    ),
    path("accounts/mfa/", include("allauth.mfa.urls")),
    path("accounts/", include([*offered, *by_mail])),
    path("profile/", profile.profile, name="profile"),
    path("profile/notifications/", notifications.notification_choices, name="notification-choices"),
    path("profile/webhooks/", webhooks.webhook_list, name="webhook-list"),
    path("projects/<slug:slug>/webhooks/", webhooks.project_webhook_list, name="project-webhook-list"),
    path("webhooks/<uuid:key>/", webhooks.webhook_detail, name="webhook-detail"),
    path("webhooks/<uuid:key>/test/", webhooks.webhook_test, name="webhook-test"),
    path("webhooks/<uuid:key>/switch/", webhooks.webhook_switch, name="webhook-switch"),
    path("webhooks/<uuid:key>/secret/", webhooks.webhook_secret, name="webhook-secret"),
    path("webhooks/<uuid:key>/delete/", webhooks.webhook_delete, name="webhook-delete"),
    path("webhooks/<uuid:key>/deliveries/<int:pk>/retry/", webhooks.webhook_retry, name="webhook-retry"),
    path("notifications/read/", notifications.notification_read, name="notification-read"),
    path("notifications/<int:pk>/open/", notifications.notification_open, name="notification-open"),
    path("language/", profile.choose_language, name="set_language"),
    path("join/", invitations.invitation_accept, name="invitation-accept"),
    path("join/<str:secret>/", invitations.invitation_open, name="invitation-open"),
    path("projects/<slug:slug>/invitations/", invitations.invitation_list, name="invitation-list"),
    path(
        "projects/<slug:slug>/invitations/<int:pk>/revoke/",
        invitations.invitation_revoke,
        name="invitation-revoke",
    ),
    path("people/", people.people_list, name="person-list"),
    path("people/<int:pk>/", people.person_detail, name="person-detail"),
    path("people/<int:pk>/switch/", people.person_switch, name="person-switch"),
    path("people/<int:pk>/reset-factor/", people.person_reset_factor, name="person-reset-factor"),
    path("tokens/", tokens.token_list, name="token-list"),
    path("tokens/everybody/", tokens.token_overview, name="token-overview"),
    path("tokens/<str:key>/revoke/", tokens.token_revoke, name="token-revoke"),
    path("announcements/", announcements.announcement_list, name="announcement-list"),
    path("create-announcement/", announcements.announcement_create, name="announcement-create"),
    path("announcements/<int:pk>/", announcements.announcement_edit, name="announcement-edit"),
    path("announcements/<int:pk>/end/", announcements.announcement_end, name="announcement-end"),
    path("announcements/<int:pk>/dismiss/", announcements.announcement_dismiss, name="announcement-dismiss"),
    path("audit/", audit.audit_list, name="audit-list"),
    path("audit/<int:pk>/", audit.audit_detail, name="audit-detail"),
    path("audit.csv", audit.audit_export, name="audit-export"),
]
