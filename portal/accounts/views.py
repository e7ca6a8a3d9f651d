from django.http import HttpRequest, HttpResponse

from portal import htmx


def profile(request: HttpRequest) -> HttpResponse:
    return htmx.render(request, "pages/home.html")
