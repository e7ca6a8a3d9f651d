"""What every answer forbids the browser, beside the Content Security Policy."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

# Nothing of the desk looks at the reader's surroundings; a script that got in should not either.
PERMISSIONS_POLICY = ", ".join(
    f"{feature}=()"
    for feature in (
        *("accelerometer", "bluetooth", "browsing-topics", "camera", "display-capture", "geolocation"),
        *("gyroscope", "hid", "magnetometer", "microphone", "midi", "payment", "serial", "usb"),
        "xr-spatial-tracking",
    )
)


class PermissionsPolicyMiddleware:
    """Adds Permissions-Policy."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        return response
