"""The organisation's identity provider (OpenID Connect), as the environment names it. Pure Python.

| variable | meaning |
|---|---|
| CLAIMDESK_OIDC_ISSUER | the issuer, as its discovery document says; without it there is no such sign-in |
| CLAIMDESK_OIDC_CLIENT_ID, …_CLIENT_SECRET | what the provider gave this desk |
| CLAIMDESK_OIDC_NAME | what the button says ("Sign in with …") |
| CLAIMDESK_OIDC_SCOPES | scopes to ask for, separated by commas |
| CLAIMDESK_OIDC_GROUPS_CLAIM | where the groups stand; a dot leads inside ("realm_access.roles") |
| CLAIMDESK_OIDC_GRANTS | JSON: {"group": "administrator"} or {"group": ["finance", "<project>:lead"]} |
| CLAIMDESK_OIDC_REQUIRED_GROUPS | who is in none of these may not sign in |
| CLAIMDESK_OIDC_NEW_PEOPLE | whether who was never here may come in (1) or only who was invited (0) |
| CLAIMDESK_OIDC_LINK_BY_EMAIL | whether a verified address opens the account here that has it |
| CLAIMDESK_OIDC_SESSION_HOURS | after how long one has to come through the provider again |

The address to register with the provider is <the desk's address>/accounts/oidc/callback/.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

PREFIX = "CLAIMDESK_OIDC_"
DESK_ROLES = ("administrator", "finance", "auditor")
PROJECT_GRANT = re.compile(r"[-a-zA-Z0-9_]{1,50}:(member|lead)")


class BadIdentitySettings(ValueError):
    """The environment names a provider in a way that cannot work; the message names the variable."""


@dataclass(frozen=True)
class IdentityProvider:
    issuer: str
    client_id: str
    client_secret: str
    name: str = "OpenID Connect"
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    groups_claim: str = "groups"
    # What each group gives: "administrator", "finance", "auditor", "<project>:<member|lead>".
    grants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    required_groups: tuple[str, ...] = ()
    new_people: bool = True
    link_by_email: bool = False
    session: timedelta = timedelta(hours=12)

    @property
    def key(self) -> str:
        """By what accounts are told apart: the same subject of another issuer is somebody else."""
        return f"oidc-{sha256(self.issuer.encode()).hexdigest()[:12]}"

    def groups_in(self, claims: Mapping[str, Any]) -> list[str]:
        """The groups that a person's claims name; none when there is no such claim, or of another form."""
        found: Any = claims.get(self.groups_claim)
        if found is None and "." in self.groups_claim:
            found = claims
            for part in self.groups_claim.split("."):
                found = found.get(part) if isinstance(found, Mapping) else None
        if isinstance(found, str):
            found = [found]
        return [group for group in found if isinstance(group, str)] if isinstance(found, list) else []

    def admits(self, groups: list[str]) -> bool:
        """Whether somebody in these groups may sign in at all."""
        return not self.required_groups or not set(self.required_groups).isdisjoint(groups)


def identity_provider(env: Any) -> IdentityProvider | None:
    """What the environment (an `environs.Env`) says; None without an issuer. Raises BadIdentitySettings."""
    issuer = env.str(f"{PREFIX}ISSUER", "").strip()
    if not issuer:
        return None
    address = urlsplit(issuer)
    if address.scheme not in {"https", "http"} or not address.hostname:
        raise BadIdentitySettings(f"{PREFIX}ISSUER has to be an address that starts with https://")
    if address.scheme == "http" and address.hostname not in {"localhost", "127.0.0.1", "::1"}:
        raise BadIdentitySettings(f"{PREFIX}ISSUER has to use https: the sign-in would be open to others")
    client_id = env.str(f"{PREFIX}CLIENT_ID", "")
    if not client_id:
        raise BadIdentitySettings(f"{PREFIX}CLIENT_ID is missing, which belongs to {PREFIX}ISSUER")
    scopes = tuple(env.list(f"{PREFIX}SCOPES", ["openid", "profile", "email"]))
    hours = env.float(f"{PREFIX}SESSION_HOURS", 12.0)
    if not 0 < hours <= 24 * 30:
        raise BadIdentitySettings(f"{PREFIX}SESSION_HOURS has to be more than 0 and at most 720")
    return IdentityProvider(
        issuer=issuer,
        client_id=client_id,
        client_secret=env.str(f"{PREFIX}CLIENT_SECRET", ""),
        name=env.str(f"{PREFIX}NAME", "OpenID Connect"),
        scopes=scopes if "openid" in scopes else ("openid", *scopes),
        groups_claim=env.str(f"{PREFIX}GROUPS_CLAIM", "groups"),
        grants=read_grants(env.str(f"{PREFIX}GRANTS", "")),
        required_groups=tuple(env.list(f"{PREFIX}REQUIRED_GROUPS", [])),
        new_people=env.bool(f"{PREFIX}NEW_PEOPLE", True),
        link_by_email=env.bool(f"{PREFIX}LINK_BY_EMAIL", False),
        session=timedelta(hours=hours),
    )


def read_grants(text: str) -> dict[str, tuple[str, ...]]:
    """What groups give, from JSON. Raises BadIdentitySettings that names the group at fault."""
    name = f"{PREFIX}GRANTS"
    try:
        found = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError as error:
        raise BadIdentitySettings(f"{name} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadIdentitySettings(f'{name} has to be an object like {{"group": "administrator"}}')
    grants: dict[str, tuple[str, ...]] = {}
    for group, given in found.items():
        several = given if isinstance(given, list) else [given]
        for grant in several:
            if grant not in DESK_ROLES and not (isinstance(grant, str) and PROJECT_GRANT.fullmatch(grant)):
                raise BadIdentitySettings(
                    f"{name}: the group {group!r} gives {grant!r}, which is none of "
                    f"{', '.join(DESK_ROLES)}, <project>:member and <project>:lead"
                )
        grants[group] = tuple(several)
    return grants
