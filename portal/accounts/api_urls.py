"""REST of the audit trail, under /api/v1/."""

from django.urls import path

from portal.accounts import api

urlpatterns = [
    path("audit/", api.AuditListView.as_view(), name="api-audit-list"),
    path("audit/<int:pk>/", api.AuditEntryView.as_view(), name="api-audit-entry"),
]
