"""Where django-allauth looks for the sign-in providers of an app."""

from portal.accounts.oidc.provider import provider_classes

__all__ = ["provider_classes"]
