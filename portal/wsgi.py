"""The WSGI entry point of the web server."""

import os

from django.core.wsgi import get_wsgi_application
from django.urls import reverse

from portal import measures, tracing
from portal.garbage import settle

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

application = get_wsgi_application()
tracing.begin()
measures.serve_counts()
# Loads all pages: now, rather than with somebody's first request.
reverse("home")
settle()
