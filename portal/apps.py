from django.apps import AppConfig
from django.forms import CharField

from portal import texts


class PortalConfig(AppConfig):
    name = "portal"

    def ready(self) -> None:
        # Here and not in portal/__init__.py: importing the Celery app there would drag Django
        # into every pure module below `portal`.
        import portal.celery
        import portal.tracing.tasks  # noqa: F401
        from portal import database

        database.connect()

        # The one place where all forms, ours and those of libraries, learn what a text may hold.
        CharField.default_validators = [*CharField.default_validators, texts.validate]
