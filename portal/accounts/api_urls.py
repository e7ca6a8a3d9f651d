"""REST of the audit trail, under /api/v1/."""

from django.urls import path

from portal.accounts import api
from portal.accounts import api_notifications as notifications

urlpatterns = [
    path("notifications/", notifications.NotificationListView.as_view(), name="api-notification-list"),
    path("notifications/read/", notifications.NotificationReadView.as_view(), name="api-notification-read"),
    path(
        "notification-choices/",
        notifications.NotificationChoicesView.as_view(),
        name="api-notification-choices",
    ),
    path("audit/", api.AuditListView.as_view(), name="api-audit-list"),
    path("audit/<int:pk>/", api.AuditEntryView.as_view(), name="api-audit-entry"),
]
