"""Pages of the ledger's keeping."""

from django.urls import path

from claims.views import keeping, ledger

urlpatterns = [
    path("history/ledger/", ledger.history_ledger, name="history-ledger"),
    path("history/ledger/policy/", keeping.ledger_policy, name="ledger-policy"),
    path("history/ledger/check/", ledger.history_ledger_check, name="history-ledger-check"),
]
