from django.apps import AppConfig


class ClaimsConfig(AppConfig):
    name = "claims"

    def ready(self) -> None:
        from claims.receivers import on_observed, on_work_due
        from claims.signals import work_due
        from inventory.signals import observed

        observed.connect(on_observed, dispatch_uid="claims.catch_up")
        work_due.connect(on_work_due, dispatch_uid="claims.pursue")
