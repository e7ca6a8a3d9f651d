from django.apps import AppConfig


class PortalConfig(AppConfig):
    name = "portal"

    def ready(self) -> None:
        # Here and not in portal/__init__.py: importing the Celery app there would drag Django
        # into every pure module below `portal`.
        import portal.celery  # noqa: F401
