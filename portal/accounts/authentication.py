"""Who calls the REST API: a bearer token of ours, or a browser session."""

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from knox.auth import TokenAuthentication as KnoxTokenAuthentication
from rest_framework.exceptions import AuthenticationFailed

from portal.accounts.models import ApiToken

# `last_used_at` is for people; a write per call would be one per row of a finance system's loop.
LAST_USED_RESOLUTION = timedelta(minutes=1)


class TokenAuthentication(KnoxTokenAuthentication):  # type: ignore[misc] # knox has no types
    """Knox's check by digest, without its habit of deleting expired tokens in passing: they stay listed."""

    def authenticate_credentials(self, token: bytes) -> "tuple[AbstractBaseUser, ApiToken]":
        """The token's owner and the token; AuthenticationFailed for an unknown, expired or orphaned one."""
        try:
            token.decode("ascii")
        except UnicodeDecodeError:
            raise AuthenticationFailed(_("This token is not known.")) from None
        try:
            user, found = super().authenticate_credentials(token)
        except AuthenticationFailed as refused:
            if refused.detail.code == "token_expired":  # type: ignore[union-attr] # a single ErrorDetail
                raise
            raise AuthenticationFailed(_("This token is not known."), "token_unknown") from None
        now = timezone.now()
        # One statement that decides by itself: parallel calls write at most once a minute.
        ApiToken.objects.filter(
            Q(last_used_at=None) | Q(last_used_at__lt=now - LAST_USED_RESOLUTION), pk=found.pk
        ).update(last_used_at=now)
        return user, found

    def _cleanup_token(self, auth_token: ApiToken) -> bool:
        if auth_token.expiry is not None and auth_token.expiry <= timezone.now():
            raise AuthenticationFailed(_("This token has expired."), "token_expired")
        return False

    def authenticate_header(self, request: Any) -> str:
        header: str = super().authenticate_header(request)
        return header
