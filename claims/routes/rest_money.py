"""REST of prices, charges and statements, under /api/v1/."""

from django.urls import path

from claims.rest import chargeback as api_chargeback
from claims.rest import charges as api_charges
from claims.rest import prices as api_prices
from claims.rest import statements as api_statements
from claims.rest import usage as api_usage

urlpatterns = [
    path("statements/", api_statements.StatementListView.as_view(), name="api-statement-list"),
    path(
        "statements/<str:month>/unattributed/",
        api_statements.StatementNobodyView.as_view(),
        name="api-statement-nobody",
    ),
    path(
        "statements/<str:month>/of/<slug:slug>/",
        api_statements.StatementDetailView.as_view(),
        name="api-statement-detail",
    ),
    path("usage/", api_usage.UsageView.as_view(), name="api-usage"),
    path("charges/", api_charges.ChargeListView.as_view(), name="api-charges"),
    path("charges/lines/", api_chargeback.ChargesView.as_view(), name="api-charge-lines"),
    path("charge-rows/", api_charges.ChargeRowListView.as_view(), name="api-charge-row-list"),
    path("price-books/", api_prices.PriceBookListView.as_view(), name="api-price-book-list"),
    path("price-books/try/", api_prices.PriceTrialView.as_view(), name="api-price-book-try"),
    path("price-books/<int:pk>/", api_prices.PriceBookDetailView.as_view(), name="api-price-book-detail"),
]
