from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "portal.accounts"
    label = "accounts"

    def ready(self) -> None:
        # Receivers, and extensions of the OpenAPI document, register themselves by being imported.
        import portal.accounts.receivers
        import portal.accounts.schema  # noqa: F401
