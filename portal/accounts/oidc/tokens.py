"""ID tokens: who the provider says somebody is. OpenID Connect Core 1.0, section 3.1.3.7."""

import hmac
from collections.abc import Mapping
from typing import Any

import jwt
from allauth.socialaccount.providers.oauth2.client import OAuth2Error

# Signatures that only the provider can make. "none", and those by the shared secret, are not among them.
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
LEEWAY_SECONDS = 60
# What the column that keeps it takes.
LONGEST_SUBJECT = 191


class InvalidIdToken(OAuth2Error):  # type: ignore[misc] # allauth has no types
    """The token proves nothing; the message says why, for the log."""


def verify(
    id_token: object, *, key_set: object, issuer: str, client_id: str, nonce: str
) -> Mapping[str, Any]:
    """The token's claims, once signature, issuer, audience, times and nonce are right; else InvalidIdToken.

    `key_set` is the provider's JWK set as decoded from JSON.
    """
    if not isinstance(id_token, str):
        raise InvalidIdToken("the provider sent no ID token")
    try:
        header = jwt.get_unverified_header(id_token)
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            raise InvalidIdToken(f"signed by {algorithm!r}, which proves nothing")
        claims: dict[str, Any] = jwt.decode(
            id_token,
            key=_key(key_set, header),
            algorithms=[algorithm],
            audience=client_id,
            issuer=issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "iat", "aud", "iss", "sub"]},
        )
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise InvalidIdToken(f"{type(error).__name__}: {error}") from error
    parties = claims.get("azp", client_id if isinstance(claims["aud"], str) else None)
    if parties != client_id and (parties is not None or len(claims["aud"]) > 1):
        raise InvalidIdToken("made for another application")
    said = claims.get("nonce")
    if not nonce or not isinstance(said, str) or not hmac.compare_digest(said.encode(), nonce.encode()):
        raise InvalidIdToken("its nonce is not the one of this sign-in")
    subject = claims["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
        raise InvalidIdToken("its subject is no usable name")
    return claims


def _key(key_set: object, header: Mapping[str, Any]) -> jwt.PyJWK:
    """The provider's key that the token says it was signed with."""
    if not isinstance(key_set, dict):
        raise InvalidIdToken("the provider's keys are not readable")
    wanted = header.get("kid")
    found = [
        key
        for key in jwt.PyJWKSet.from_dict(key_set).keys
        if key.public_key_use in {None, "sig"} and wanted in {None, key.key_id}
    ]
    if len(found) != 1:
        raise InvalidIdToken(f"{len(found)} keys of the provider fit {wanted!r}")
    return found[0]
