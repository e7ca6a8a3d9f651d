"""The ground rules of the house."""

import subprocess
import sys

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.db import connection


def test_the_pure_rooms_drag_in_neither_django_nor_celery_nor_the_kubernetes_client() -> None:
    program = (
        "import sys, portal.dra; "
        "print(sorted(m for m in ('django', 'celery', 'kubernetes') if m in sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.django_db
def test_models_and_migrations_agree() -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


@pytest.mark.django_db
def test_the_database_answers() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_the_cache_is_a_real_valkey() -> None:
    cache.set("greeting", "hello", timeout=5)
    assert cache.get("greeting") == "hello"
