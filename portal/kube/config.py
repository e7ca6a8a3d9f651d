"""Credentials of a cluster: where they come from, and what they open.

The official client does what it is good at (kubeconfig and its plugins, in-cluster accounts, TLS, refreshing
tokens); everything that it may raise leaves here as `BadCredentials`.
"""

import contextlib
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml
from django.utils.translation import gettext as _
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import load_incluster_config
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from portal.kube.errors import BadCredentials, ForbiddenCredentials

# A follower keeps a watch per resource open, and asks now and then besides.
MAX_CONNECTIONS = 32
MAX_KUBECONFIG_CHARACTERS = 256 * 1024
# A credential plugin (a cloud's login helper) has this long; the official client would wait for ever.
PLUGIN_TIMEOUT_SECONDS = 30.0

# Keys of a user or cluster entry that make the reader run programs or read files of this machine. An
# operator may put them into a file on the portal's disk; a text that came through a form may not.
PROGRAM_KEYS = frozenset({"exec", "auth-provider"})
FILE_KEYS = frozenset({"tokenFile", "client-certificate", "client-key", "certificate-authority"})


@dataclass
class Session:
    """Opened credentials: the server's address, a connection pool, and a header that is fresh at each
    call."""

    url: str
    rest: RESTClientObject
    _configuration: Any
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def authorization(self) -> str | None:
        """Value of the Authorization header; None where a client certificate (or nothing) is used.

        Raises BadCredentials when an expired token cannot be refreshed, or no header can carry it.
        """
        with self._lock:
            token: str | None = _guarded(lambda: self._configuration.get_api_key_with_prefix("BearerToken"))
        if token is not None and not (token.isascii() and token.isprintable()):
            raise BadCredentials(_("The token has characters that no token has: line breaks, perhaps."))
        return token


@dataclass(frozen=True)
class Credentials:
    """Where the credentials of a cluster come from; `open` reads them (again, after the cluster refused
    them)."""

    source: str
    # Same input may give other credentials next time (rotated files, plugins): worth one new attempt after
    # a 401.
    renewable: bool
    _load: Callable[[], Any] = field(repr=False)

    @classmethod
    def from_kubeconfig(cls, path: str | Path, *, context: str = "") -> Self:
        """A kubeconfig file that the operator put on this machine; may use credential plugins."""

        def load() -> Any:
            document = _read_file(path)
            chosen = _check(document, context=context)
            merger = KubeConfigMerger(str(path))
            return _configure(
                lambda: KubeConfigLoader(merger.config, active_context=chosen, config_base_path=None)
            )

        return cls(source="kubeconfig", renewable=True, _load=load)

    @classmethod
    def from_text(cls, text: str, *, context: str = "") -> Self:
        """A kubeconfig as text, from a form or the database. Raises ForbiddenCredentials, when opened, if
        it names programs to run or files to read: whoever may store a kubeconfig must not thereby run code
        on the portal."""

        def load() -> Any:
            document = parse_kubeconfig(text)
            chosen = _check(document, context=context)
            _refuse_local_access(document)
            return _configure(lambda: KubeConfigLoader(document, active_context=chosen, config_base_path=""))

        return cls(source="stored", renewable=False, _load=load)

    @classmethod
    def in_cluster(cls) -> Self:
        """The service account of the Pod that the portal runs in."""

        def load() -> Any:
            configuration = Configuration()
            _guarded(lambda: load_incluster_config(client_configuration=configuration))
            return configuration

        return cls(source="in-cluster", renewable=True, _load=load)

    def open(self) -> Session:
        """Read the credentials and prepare connections (none is made yet). Raises BadCredentials."""
        configuration = self._load()
        url = str(configuration.host).rstrip("/")
        _check_url(url)
        # Probes that notice a peer that vanished without closing the connection of a quiet watch.
        configuration.keep_alive = True
        configuration.connection_pool_maxsize = MAX_CONNECTIONS
        rest = _guarded(lambda: RESTClientObject(configuration))
        return Session(url=url, rest=rest, _configuration=configuration)


def parse_kubeconfig(text: str) -> dict[str, Any]:
    """A kubeconfig's YAML (or JSON) as a mapping. Raises BadCredentials with the line where it stops to
    parse."""
    if len(text) > MAX_KUBECONFIG_CHARACTERS:
        raise BadCredentials(_("This is too long for a kubeconfig."))
    try:
        document = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        # Not `str(error)`: its snippet may quote a token.
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        message = _("The kubeconfig does not parse: line %(line)s: %(problem)s") % {
            "line": line,
            "problem": error.problem or error.context or "",
        }
        raise BadCredentials(message) from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise BadCredentials(_("The kubeconfig does not parse as YAML.")) from None
    if not isinstance(document, dict):
        raise BadCredentials(_("This is not a kubeconfig: it has no clusters, users and contexts."))
    return document


def context_names(document: Mapping[str, Any]) -> list[str]:
    """Names of the contexts of a parsed kubeconfig."""
    return [str(entry["name"]) for entry in _entries(document, "contexts")]


def _read_file(path: str | Path) -> dict[str, Any]:
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadCredentials(_("There is no kubeconfig file %(path)s.") % {"path": path}) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else _("it is not text")
        raise BadCredentials(
            _("The kubeconfig file %(path)s cannot be read: %(reason)s.") % {"path": path, "reason": reason}
        ) from None
    return parse_kubeconfig(text)


def _entries(document: Mapping[str, Any], section: str) -> list[Mapping[str, Any]]:
    entries = document.get(section) or []
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in entries
    ):
        raise BadCredentials(
            _("The kubeconfig's section “%(section)s” is not a list of named entries.") % {"section": section}
        )
    return entries


def _check(document: Mapping[str, Any], *, context: str) -> str:
    """The name of the context to use, after everything it leads to was found; BadCredentials says what is
    missing."""
    contexts = context_names(document)
    chosen = context or document.get("current-context")
    if not chosen:
        raise BadCredentials(
            _("The kubeconfig has no current context; choose one of: %(names)s.") % {"names": _list(contexts)}
        )
    if chosen not in contexts:
        raise BadCredentials(
            _("The kubeconfig has no context “%(name)s”; it has: %(names)s.")
            % {"name": chosen, "names": _list(contexts)}
        )
    entry = _find(document, "contexts", "context", str(chosen))
    cluster = _find(document, "clusters", "cluster", str(entry.get("cluster") or ""))
    if not isinstance(cluster.get("server"), str):
        raise BadCredentials(_("The kubeconfig's cluster of this context has no server address."))
    _check_url(cluster["server"])
    if entry.get("user"):
        _find(document, "users", "user", str(entry["user"]))
    return str(chosen)


def _find(document: Mapping[str, Any], section: str, key: str, name: str) -> Mapping[str, Any]:
    for entry in _entries(document, section):
        if entry["name"] == name:
            value = entry.get(key)
            return value if isinstance(value, dict) else {}
    raise BadCredentials(
        _("The kubeconfig has no entry “%(name)s” in “%(section)s”.") % {"name": name, "section": section}
    )


def _list(names: list[str]) -> str:
    return ", ".join(names[:20]) or _("none")


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname)
        _port = parts.port
    except ValueError:
        valid = False
    if not valid:
        raise BadCredentials(
            _("“%(url)s” is not an address of an API server: it must start with https:// (or http://).")
            % {"url": url[:200]}
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise BadCredentials(_("The server's address must not carry a user name, a query or a fragment."))


def _refuse_local_access(document: Mapping[str, Any]) -> None:
    for section, key in (("users", "user"), ("clusters", "cluster")):
        for entry in _entries(document, section):
            value = entry.get(key)
            if not isinstance(value, dict):
                continue
            for name in sorted(PROGRAM_KEYS & value.keys()):
                raise ForbiddenCredentials(
                    _(
                        "A stored kubeconfig may not run programs (“%(key)s” of “%(name)s”). Put the file "
                        "on the portal's disk and give its path, or use a token or a client certificate."
                    )
                    % {"key": name, "name": entry["name"]}
                )
            for name in sorted(FILE_KEYS & value.keys()):
                raise ForbiddenCredentials(
                    _(
                        "A stored kubeconfig may not name files (“%(key)s” of “%(name)s”). Embed the content "
                        "instead, for example with: kubectl config view --flatten --minify"
                    )
                    % {"key": name, "name": entry["name"]}
                )


def _configure(loader: Callable[[], KubeConfigLoader]) -> Any:
    configuration = Configuration()

    def load() -> None:
        made = loader()
        made.load_and_set(configuration)
        # The official client only logs when a plugin fails, and would go on anonymously.
        user = getattr(made, "_user", None)
        if user is not None and "exec" in user and not (configuration.api_key or configuration.cert_file):
            raise BadCredentials(_("The credential plugin of the kubeconfig gave no credentials."))

    _guarded(load)
    return configuration


def _guarded(call: Callable[[], Any]) -> Any:
    """Run a call of the official client that may start a plugin: bounded in time, its errors renamed."""
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # noqa: BLE001 - handed over to the caller's thread
            done.set_exception(error)

    # A daemon, because a plugin that hangs must not keep the process alive.
    threading.Thread(target=run, name="kube-credentials", daemon=True).start()
    with contextlib.suppress(TimeoutError):
        error = done.exception(timeout=PLUGIN_TIMEOUT_SECONDS)
        if error is None:
            return done.result()
        if isinstance(error, BadCredentials):
            raise error
        raise BadCredentials(
            _("The credentials cannot be used: %(reason)s") % {"reason": _reason(error)}
        ) from None
    raise BadCredentials(
        _("The credential plugin of the kubeconfig did not answer within %(seconds)d s.")
        % {"seconds": PLUGIN_TIMEOUT_SECONDS}
    )


def _reason(error: BaseException) -> str:
    """What the official client said, without what it may quote of the file (it prints whole entries)."""
    from kubernetes.config.config_exception import ConfigException

    if isinstance(error, ConfigException):
        said = str(error)
        missing = re.match(r"Invalid kube-config file. Expected key (\S+) in ", said)
        if missing:
            return _("an entry lacks “%(key)s”") % {"key": missing[1]}
        return (
            _("the kubeconfig is not valid") if said.startswith("Invalid") else said.split("\n", 1)[0][:200]
        )
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return type(error).__name__
