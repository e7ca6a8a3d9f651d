"""REST of prices, charges and statements, under /api/v1/."""

from django.urls import path

from claims.rest import budgets as api_budgets
from claims.rest import chargeback as api_chargeback
from claims.rest import charges as api_charges
from claims.rest import disputes as api_disputes
from claims.rest import focus as api_focus
from claims.rest import prices as api_prices
from claims.rest import statement_moves as api_moves
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
    path(
        "statements/<str:month>/move/",
        api_moves.StatementMoveAllView.as_view(),
        name="api-statement-move-all",
    ),
    path(
        "statements/<str:month>/unattributed/move/",
        api_moves.StatementNobodyMoveView.as_view(),
        name="api-statement-nobody-move",
    ),
    path(
        "statements/<str:month>/of/<slug:slug>/move/",
        api_moves.StatementMoveView.as_view(),
        name="api-statement-move",
    ),
    path("adjustments/", api_moves.AdjustmentListView.as_view(), name="api-adjustment-list"),
    path(
        "adjustments/<int:pk>/decide/", api_moves.AdjustmentDecideView.as_view(), name="api-adjustment-decide"
    ),
    path("disputes/", api_disputes.DisputeListView.as_view(), name="api-dispute-list"),
    path("disputes/<int:pk>/", api_disputes.DisputeDetailView.as_view(), name="api-dispute-detail"),
    path("charges/<int:pk>/dispute/", api_disputes.ChargeDisputeView.as_view(), name="api-charge-dispute"),
    path("budgets/", api_budgets.BudgetListView.as_view(), name="api-budget-list"),
    path("budgets/<slug:slug>/", api_budgets.ProjectBudgetView.as_view(), name="api-project-budget"),
    path("budgets/<slug:slug>/<str:currency>/", api_budgets.BudgetDetailView.as_view(), name="api-budget"),
    path("usage/", api_usage.UsageView.as_view(), name="api-usage"),
    path("charges/", api_charges.ChargeListView.as_view(), name="api-charges"),
    path("charges/lines/", api_chargeback.ChargesView.as_view(), name="api-charge-lines"),
    path("charge-rows/", api_charges.ChargeRowListView.as_view(), name="api-charge-row-list"),
    path("focus/", api_focus.FocusView.as_view(), name="api-focus"),
    path("price-books/", api_prices.PriceBookListView.as_view(), name="api-price-book-list"),
    path("price-books/try/", api_prices.PriceTrialView.as_view(), name="api-price-book-try"),
    path("price-books/<int:pk>/", api_prices.PriceBookDetailView.as_view(), name="api-price-book-detail"),
]
