"""The signed-in person's own pages."""

from django.urls import path

from portal.accounts import views

urlpatterns = [
    path("profile/", views.profile, name="profile"),
    path("tokens/", views.profile, name="token-list"),
]
