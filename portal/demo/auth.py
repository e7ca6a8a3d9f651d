"""Who calls, and what they may do: three accounts with bearer tokens, and the kubeconfig that names them."""

import base64
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from portal.demo import errors
from portal.demo.journal import Journal
from portal.demo.resources import READ_VERBS, Resource

ADMIN, PORTAL, READER, ANONYMOUS = "admin", "portal", "reader", "system:anonymous"
ACCOUNTS = (ADMIN, PORTAL, READER)

# What the roles in deploy/cluster give a desk's account (a test holds the two together).
WRITTEN_BY_PORTAL = {
    ("resource.k8s.io", "resourceclaims"): frozenset({"create", "delete"}),
    ("resource.k8s.io", "resourceclaimtemplates"): frozenset({"create", "delete"}),
    ("resource.k8s.io", "deviceclasses"): frozenset({"create", "update", "patch", "delete"}),
    ("resource.k8s.io", "devicetaintrules"): frozenset({"create", "update", "delete"}),
    ("", "pods"): frozenset({"create", "delete"}),
    ("", "resourcequotas"): frozenset({"create", "update", "delete"}),
    ("batch", "jobs"): frozenset({"create", "delete"}),
}
PUBLIC_PATHS = ("/healthz", "/readyz", "/livez", "/version")


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated caller."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)


class Accounts:
    """The tokens of one cluster; they stay the same for the same data directory."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self.tokens = dict(tokens)

    @classmethod
    def kept_in(cls, journal: Journal) -> "Accounts":
        """The tokens in ``journal``, made at the first start."""
        tokens = {}
        for account in ACCOUNTS:
            token = journal.setting(f"token.{account}")
            if not token:
                token = secrets.token_urlsafe(32)
                journal.set_setting(f"token.{account}", token)
            tokens[account] = token
        return cls(tokens)

    def authenticate(self, authorization: str) -> User:
        """The caller named by an Authorization header; 401 for a token that is not known."""
        if not authorization:
            return User(ANONYMOUS, ("system:unauthenticated",))
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer":
            for account, known in self.tokens.items():
                if hmac.compare_digest(token.strip().encode(), known.encode()):
                    return User(account)
        raise errors.unauthorized()

    def kubeconfig(self, url: str, *, certificate: bytes = b"") -> dict[str, Any]:
        """A kubeconfig with one context for each account; ``admin`` is current."""
        cluster = {"server": url}
        if certificate:
            cluster["certificate-authority-data"] = base64.b64encode(certificate).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "embedded", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}} for name, token in self.tokens.items()],
            "contexts": [
                {"name": name, "context": {"cluster": "embedded", "user": name}} for name in self.tokens
            ],
            "current-context": ADMIN,
        }


def may(user: User, verb: str, group: str, plural: str, subresource: str = "") -> bool:
    """Whether ``user`` may do ``verb``; statuses and bindings are not for the portal to write."""
    if user.name == ADMIN:
        return True
    if user.name == ANONYMOUS:
        return False
    if group == "authorization.k8s.io" and verb == "create":
        return True
    if verb in READ_VERBS:
        return user.name in (PORTAL, READER)
    written = WRITTEN_BY_PORTAL.get((group, plural), frozenset())
    return user.name == PORTAL and not subresource and verb in written


def review(body: dict[str, Any], user: User) -> dict[str, Any]:
    """A SelfSubjectAccessReview with its answer; 400 when it does not ask for exactly one thing."""
    spec = body.get("spec")
    asked = spec if isinstance(spec, dict) else {}
    attributes, path = (asked.get(name) or {} for name in ("resourceAttributes", "nonResourceAttributes"))
    if bool(attributes) == bool(path) or not (isinstance(attributes, dict) and isinstance(path, dict)):
        raise errors.bad_request(
            "spec: exactly one of nonResourceAttributes or resourceAttributes is required"
        )
    if path:
        allowed = user.name in ACCOUNTS and path.get("verb") == "get"
    else:
        names = ("verb", "group", "resource", "subresource")
        allowed = may(user, *(attributes.get(name) or "" for name in names))
    return {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {"creationTimestamp": None},
        "spec": asked,
        "status": {"allowed": allowed},
    }


def demand(
    user: User,
    verb: str,
    resource: Resource,
    *,
    namespace: str = "",
    name: str = "",
    subresource: str = "",
) -> None:
    """403, worded as RBAC words it, unless ``user`` may do this."""
    if may(user, verb, resource.group, resource.plural, subresource):
        return
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    raise errors.forbidden(
        resource.group,
        resource.plural,
        name,
        f'User "{user.name}" cannot {verb} resource "{plural}" in API group "{resource.group}" {scope}',
    )


def demand_path(user: User, verb: str, path: str) -> None:
    """403 for a caller without a name on anything that is not public."""
    if user.name == ANONYMOUS and path not in PUBLIC_PATHS:
        raise errors.ApiError(
            403, "Forbidden", f'forbidden: User "{user.name}" cannot {verb} path "{path}"', {}
        )
