"""REST of the audit trail, of notifications and of projects, under /api/v1/."""

from django.urls import path

from portal.accounts import api
from portal.accounts import api_notifications as notifications
from portal.accounts import api_projects as projects

urlpatterns = [
    path("notifications/", notifications.NotificationListView.as_view(), name="api-notification-list"),
    path("notifications/read/", notifications.NotificationReadView.as_view(), name="api-notification-read"),
    path(
        "notification-choices/",
        notifications.NotificationChoicesView.as_view(),
        name="api-notification-choices",
    ),
    path("projects/<slug:slug>/archive/", projects.ProjectArchiveView.as_view(), name="api-project-archive"),
    path("projects/<slug:slug>/restore/", projects.ProjectRestoreView.as_view(), name="api-project-restore"),
    path("audit/", api.AuditListView.as_view(), name="api-audit-list"),
    path("audit/<int:pk>/", api.AuditEntryView.as_view(), name="api-audit-entry"),
]
