"""Pages composed of several rooms."""

from django.urls import path

from portal.pages import home

urlpatterns = [
    path("", home.home, name="home"),
    path("search/", home.home, name="search"),
    path("projects/", home.home, name="project-list"),
    path("projects/<slug:slug>/", home.home, name="project-detail"),
]
