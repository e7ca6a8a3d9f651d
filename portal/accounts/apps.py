from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AccountsConfig(AppConfig):
    name = "portal.accounts"
    label = "accounts"

    def ready(self) -> None:
        # Receivers, and extensions of the OpenAPI document, register themselves by being imported.
        import portal.accounts.notifications.receivers
        import portal.accounts.receivers
        import portal.accounts.schema  # noqa: F401
        from portal.append_only import after_migrate

        post_migrate.connect(after_migrate, sender=self, dispatch_uid="append-only")
