from django.apps import AppConfig


class IdempotencyConfig(AppConfig):
    name = "portal.idempotency"
    label = "idempotency"
