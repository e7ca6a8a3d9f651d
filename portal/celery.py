"""The Celery application: settings from Django, tasks from the apps, beat schedule in code."""

import os

from celery import Celery
from celery.schedules import crontab
from celery.signals import setup_logging, worker_ready

from portal import measures  # noqa: F401 - counts tasks
from portal.garbage import settle

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")


@setup_logging.connect
def _log_as_everything_else_does(**_: object) -> None:
    """Celery's own set-up would write lines with secrets in them, and without ids: Django's stays."""


@worker_ready.connect
def _settle_down(**_: object) -> None:
    settle()


app = Celery("portal")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["portal.accounts", "inventory", "claims", "portal.idempotency"])
app.conf.beat_schedule = {
    "keep a follower on every enabled cluster": {
        "task": "inventory.tasks.ensure_followers",
        "schedule": 5.0,
    },
    "roll out what was approved for device classes": {
        "task": "inventory.proposals.tasks.roll_out_due",
        "schedule": 15.0,
        "options": {"expires": 15},
    },
    "look for what is wrong": {
        "task": "inventory.tasks.evaluate_findings",
        "schedule": 60.0,
        # The next one is due then.
        "options": {"expires": 55},
    },
    "read what autoscalers say": {
        "task": "inventory.autoscaling.tasks.read",
        "schedule": 60.0,
        "options": {"expires": 55},
    },
    "ask the Prometheus of each cluster": {
        "task": "inventory.telemetry.tasks.read",
        "schedule": 30.0,
        "options": {"expires": 30},
    },
    "begin and end maintenance": {
        "task": "inventory.tasks.keep_maintenance",
        "schedule": 15.0,
        "options": {"expires": 15},
    },
    "forget old idempotency keys": {
        "task": "portal.idempotency.tasks.prune",
        "schedule": 3600.0,
    },
    "keep quotas": {
        "task": "claims.tasks.keep_quotas",
        "schedule": 15.0,
        "options": {"expires": 15},
    },
    "start and stop what people launch": {
        "task": "claims.launches.tasks.tend",
        "schedule": 5.0,
    },
    "go on with drills": {
        "task": "claims.drill.tasks.tend",
        "schedule": 2.0,
        "options": {"expires": 10},
    },
    "remove what drills left behind": {
        "task": "claims.drill.tasks.sweep",
        "schedule": 60.0,
        "options": {"expires": 55},
    },
    "check the ledger": {
        "task": "claims.tasks.audit_ledgers",
        # While most sleep.
        "schedule": crontab(hour="2", minute="17"),
        "options": {"expires": 3600},
    },
    "rate what was used": {
        "task": "claims.money.tasks.rate",
        "schedule": 60.0,
        "options": {"expires": 55},
    },
    "fold what was observed": {
        "task": "claims.tasks.catch_up",
        "schedule": 5.0,
    },
    "remove what requests left behind": {
        "task": "claims.tasks.sweep",
        "schedule": 60.0,
        "options": {"expires": 55},
    },
    "start what was booked": {
        "task": "claims.tasks.start_bookings",
        "schedule": 15.0,
        "options": {"expires": 15},
    },
    "remind of what ends and of what lies idle": {
        "task": "claims.tasks.remind",
        "schedule": 60.0,
        "options": {"expires": 55},
    },
    "look whether what people wait for is free": {
        "task": "claims.tasks.look_for_free",
        "schedule": 20.0,
        "options": {"expires": 15},
    },
    "deliver what people are told": {
        "task": "accounts.tasks.deliver_due",
        "schedule": 10.0,
        "options": {"expires": 10},
    },
    "drop old notifications": {
        "task": "accounts.tasks.prune_notifications",
        "schedule": 3600.0,
    },
}
