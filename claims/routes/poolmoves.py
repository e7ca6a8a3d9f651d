"""Pages and REST of node pools that go from a Device Plugin to DRA, and of their drills."""

from django.urls import path

from claims.rest import drills as rest_drills
from claims.rest import poolmoves as rest
from claims.views import drills
from claims.views import poolmoves as views

urlpatterns = [
    path("migration/", views.migration_list, name="migration-list"),
    path("migration/new/", views.migration_create, name="migration-create"),
    path("migration/<int:pk>/", views.migration_detail, name="migration-detail"),
    path("migration/<int:pk>/print/", views.migration_print, name="migration-print"),
    path("migration/<int:pk>/export/", views.migration_export, name="migration-export"),
    path("migration/<int:pk>/edit/", views.migration_edit, name="migration-edit"),
    path("migration/<int:pk>/remove/", views.migration_remove, name="migration-remove"),
    path("migration/<int:pk>/stage/", views.migration_stage, name="migration-stage"),
    path("migration/<int:pk>/switch/", views.migration_switch, name="migration-switch"),
    path("migration/<int:pk>/sign/<slug:item>/", views.migration_sign, name="migration-sign"),
    path("migration/<int:pk>/drill/", drills.drill_create, name="drill-create"),
    path("drills/<uuid:key>/", drills.drill_detail, name="drill-detail"),
    path("drills/<uuid:key>/print/", drills.drill_print, name="drill-print"),
    path("drills/<uuid:key>/export/", drills.drill_export, name="drill-export"),
    path("drills/<uuid:key>/answer/", drills.drill_answer, name="drill-answer"),
    path("drills/<uuid:key>/cancel/", drills.drill_cancel, name="drill-cancel"),
]

api_urlpatterns = [
    path("migration/", rest.MigrationListView.as_view(), name="api-migration-list"),
    path("migration/<int:pk>/", rest.MigrationDetailView.as_view(), name="api-migration-detail"),
    path("migration/<int:pk>/stage/", rest.MigrationStageView.as_view(), name="api-migration-stage"),
    path("migration/<int:pk>/switch/", rest.MigrationSwitchView.as_view(), name="api-migration-switch"),
    path("migration/<int:pk>/drills/", rest_drills.DrillListView.as_view(), name="api-drill-list"),
    path("drills/<uuid:key>/", rest_drills.DrillDetailView.as_view(), name="api-drill-detail"),
    path("drills/<uuid:key>/answer/", rest_drills.DrillAnswerView.as_view(), name="api-drill-answer"),
    path("drills/<uuid:key>/cancel/", rest_drills.DrillCancelView.as_view(), name="api-drill-cancel"),
    path("migration/<int:pk>/sign/", rest.MigrationSignView.as_view(), name="api-migration-sign"),
]
