"""Pages and REST of node pools that can grow, and REST of the preview."""

from django.urls import path

from claims.rest import pools as api_pools
from claims.rest import preview as api_preview
from claims.views import pools

urlpatterns = [
    path("growable-pools/", pools.pool_list, name="growable-pool-list"),
    path("growable-pools/new/", pools.pool_create, name="growable-pool-create"),
    path("growable-pools/<int:pk>/", pools.pool_edit, name="growable-pool-edit"),
    path("growable-pools/<int:pk>/remove/", pools.pool_remove, name="growable-pool-remove"),
]

api_urlpatterns = [
    path("growable-pools/", api_pools.GrowablePoolListView.as_view(), name="api-growable-pool-list"),
    path(
        "growable-pools/<int:pk>/",
        api_pools.GrowablePoolDetailView.as_view(),
        name="api-growable-pool-detail",
    ),
    path("requests/preview/", api_preview.RequestPreviewView.as_view(), name="api-request-preview"),
]
