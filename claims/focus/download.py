"""Files of the export over HTTP: what a query string asks for, and the file as it is written."""

from collections.abc import Mapping

from django.conf import settings
from django.http import StreamingHttpResponse
from django.utils import timezone

from claims.focus.dataset import Dataset
from claims.focus.files import MEDIA_TYPES, written
from claims.focus.wanted import Wanted
from claims.money.months import zone_named
from portal.accounts.models import User


def asked(values: Mapping[str, str], *, viewer: User) -> Dataset:
    """What a query string asks for; `wanted.errors` says what could not be read. Raises Http404 for a project
    that is none of the viewer's."""
    now, zone = timezone.now(), zone_named(settings.ORGANISATION_ZONE)
    wanted = Wanted.parse(values, now=now, zone=zone)
    return Dataset(wanted, zone=zone, organisation=settings.ORGANISATION, viewer=viewer, now=now)


def download(dataset: Dataset, form: str) -> StreamingHttpResponse:
    """The file, piece by piece."""
    parts = written(dataset.rows(), version=dataset.wanted.version, form=form)
    response = StreamingHttpResponse(parts, content_type=MEDIA_TYPES[form])
    response["Content-Disposition"] = f'attachment; filename="{dataset.wanted.name}.{form}"'
    return response
