from django.apps import AppConfig
from django.db.models.signals import post_migrate, post_save, pre_save


class ClaimsConfig(AppConfig):
    name = "claims"

    def ready(self) -> None:
        from claims.catalogue.offering import everything_offered, flavors_demanding, flavors_served
        from claims.drill.namespaces import why_not_bound
        from claims.drill.sweeping import findings as drill_findings
        from claims.drill.tasks import on_drill_due
        from claims.launches.tasks import on_launch_due
        from claims.ledger.exclusion import after_migrate
        from claims.money.tasks import on_project_saved, on_project_saving
        from claims.receivers import (
            on_findings_opened,
            on_metrics_read,
            on_observed,
            on_quotas_due,
            on_work_due,
        )
        from claims.requests.concerned import concerned
        from claims.requests.drift_findings import findings as drift_findings
        from claims.requests.sweeping import findings
        from claims.signals import drill_due, launch_due, quotas_due, work_due
        from inventory.bindings import register_refusal
        from inventory.class_names import register_catalogue
        from inventory.class_users import register_demands, register_offering
        from inventory.findings.strays import CHANGED, register
        from inventory.signals import findings_opened, observed
        from inventory.taints.concerned import register as register_concerned
        from inventory.telemetry.signals import read as metrics_read

        pre_save.connect(on_project_saving, sender="accounts.Project", dispatch_uid="claims.money.centres")
        post_save.connect(on_project_saved, sender="accounts.Project", dispatch_uid="claims.money.centres")
        post_migrate.connect(after_migrate, sender=self, dispatch_uid="ledger-exclusion")
        register(findings)
        register(drill_findings)
        register(drift_findings, CHANGED)
        register_refusal(why_not_bound)
        register_offering(flavors_served)
        register_demands(flavors_demanding)
        register_catalogue(everything_offered)
        register_concerned(concerned)
        observed.connect(on_observed, dispatch_uid="claims.catch_up")
        metrics_read.connect(on_metrics_read, dispatch_uid="claims.utilisation")
        findings_opened.connect(on_findings_opened, dispatch_uid="claims.drift")
        work_due.connect(on_work_due, dispatch_uid="claims.pursue")
        quotas_due.connect(on_quotas_due, dispatch_uid="claims.quotas.standing")
        drill_due.connect(on_drill_due, dispatch_uid="claims.drill.running")
        launch_due.connect(on_launch_due, dispatch_uid="claims.launches.launching")
