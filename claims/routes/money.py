"""Pages of prices, charges and statements."""

from django.urls import path

from claims.views import budgets, charges, focus, keeping, prices, statements

urlpatterns = [
    path("prices/", prices.price_book_list, name="price-book-list"),
    path("prices/<int:pk>/", prices.price_book_detail, name="price-book-detail"),
    path("prices/drafts/new/", prices.price_draft_create, name="price-draft-create"),
    path("prices/drafts/<int:pk>/", prices.price_draft_edit, name="price-draft-edit"),
    path("prices/drafts/<int:pk>/publish/", prices.price_draft_publish, name="price-draft-publish"),
    path("prices/drafts/<int:pk>/discard/", prices.price_draft_discard, name="price-draft-discard"),
    path("statements/", statements.statement_list, name="statement-list"),
    path("statements/webhooks/", keeping.statement_hooks, name="statement-hooks"),
    path("focus/", focus.focus_page, name="focus"),
    path("focus/file/", focus.focus_file, name="focus-file"),
    path(
        "statements/<str:month>/all/<slug:action>/", statements.statement_move_all, name="statement-move-all"
    ),
    path("statements/<str:month>/reconciliation/", statements.reconciliation, name="reconciliation"),
    path("statements/<str:month>/unattributed/", statements.statement_detail, name="statement-nobody"),
    path(
        "statements/<str:month>/unattributed/move/", statements.statement_move, name="statement-nobody-move"
    ),
    path(
        "statements/<str:month>/unattributed.csv", statements.statement_export, name="statement-nobody-export"
    ),
    path("statements/<str:month>/idle/pass-on/", statements.idle_pass_on, name="idle-pass-on"),
    path("statements/<str:month>/of/<slug:slug>/", statements.statement_detail, name="statement-detail"),
    path("statements/<str:month>/of/<slug:slug>/move/", statements.statement_move, name="statement-move"),
    path("statements/<str:month>/of/<slug:slug>.csv", statements.statement_export, name="statement-export"),
    path("statements/<str:month>/of/<slug:slug>/charges/", charges.charge_list, name="charge-list"),
    path("charges/<int:pk>/", charges.charge_detail, name="charge-detail"),
    path("charges/<int:pk>/dispute/", charges.dispute_create, name="dispute-create"),
    path("disputes/", charges.dispute_list, name="dispute-list"),
    path("disputes/<int:pk>/", charges.dispute_detail, name="dispute-detail"),
    path("projects/<slug:slug>/adjust/", charges.adjustment_create, name="adjustment-create"),
    path("adjustments/<int:pk>/decide/", charges.adjustment_decide, name="adjustment-decide"),
    path("projects/<slug:slug>/budget/", budgets.budget, name="budget"),
    path("projects/<slug:slug>/cost-centres/", budgets.cost_centres, name="cost-centres"),
]
