"""Pages of prices, charges and statements."""

from django.urls import path

from claims.views import prices

urlpatterns = [
    path("prices/", prices.price_book_list, name="price-book-list"),
    path("prices/<int:pk>/", prices.price_book_detail, name="price-book-detail"),
    path("prices/drafts/new/", prices.price_draft_create, name="price-draft-create"),
    path("prices/drafts/<int:pk>/", prices.price_draft_edit, name="price-draft-edit"),
    path("prices/drafts/<int:pk>/publish/", prices.price_draft_publish, name="price-draft-publish"),
    path("prices/drafts/<int:pk>/discard/", prices.price_draft_discard, name="price-draft-discard"),
]
