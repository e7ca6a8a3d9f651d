"""Pages and REST of quotas."""

from django.urls import path

from claims.rest import quotas as api_quotas
from claims.views import quotas

_RESTORE = "<uuid:key>/objects/<int:pk>/restore/"

urlpatterns = [
    path("quotas/", quotas.quota_list, name="quota-list"),
    path("quotas/new/", quotas.quota_create, name="quota-create"),
    path("quotas/<uuid:key>/", quotas.quota_detail, name="quota-detail"),
    path("quotas/<uuid:key>/edit/", quotas.quota_edit, name="quota-edit"),
    path("quotas/<uuid:key>/end/", quotas.quota_end, name="quota-end"),
    path(
        "quotas/<uuid:key>/objects/<int:pk>/restore/",
        quotas.quota_object_restore,
        name="quota-object-restore",
    ),
]

api_urlpatterns = [
    path("project-quotas/", api_quotas.ProjectQuotaListView.as_view(), name="api-project-quota-list"),
    path(
        "project-quotas/effect/", api_quotas.ProjectQuotaEffectView.as_view(), name="api-project-quota-effect"
    ),
    path(
        "project-quotas/<uuid:key>/",
        api_quotas.ProjectQuotaDetailView.as_view(),
        name="api-project-quota-detail",
    ),
    path(
        "project-quotas/<uuid:key>/end/",
        api_quotas.ProjectQuotaEndView.as_view(),
        name="api-project-quota-end",
    ),
    path(
        f"project-quotas/{_RESTORE}",
        api_quotas.ProjectQuotaRestoreView.as_view(),
        name="api-project-quota-restore",
    ),
]
