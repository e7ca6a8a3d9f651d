"""Where a webhook may lead: never into the network that the desk itself stands in.

An address is checked when it is entered and again at every call, by what its name resolves to then, and the
call goes to the very address that was checked: a name that changes its mind in between gets nowhere. Hosts
that the operator names (CLAIMDESK_WEBHOOK_HOSTS) may have private addresses and speak plain HTTP.
"""

import ipaddress
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext_noop

from portal.accounts.notifications.texts import Text, as_written

MAX_URL = 500
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[..., list[Any]]
# What Python's `is_global` takes for reachable, and carries an IPv4 address of any network within it.
_TRANSLATED = tuple(ipaddress.ip_network(net) for net in ("64:ff9b::/96", "2002::/16", "::/96"))
# Never delegated in the public name system (RFC 6761, 6762, 8375; ICANN), and names of services in clusters.
_PRIVATE_NAMES = (
    *("localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan"),
    *("home.arpa", "svc"),
)


class UnableToReach(Exception):
    """The address is none that the desk calls; `said` tells why, in the language of who reads it."""

    def __init__(self, said: Text) -> None:
        super().__init__(str(said))
        self.said = said


@dataclass(frozen=True)
class Target:
    """Where to call: `addresses` were looked up and found harmless."""

    scheme: str
    host: str
    port: int
    path: str
    addresses: tuple[str, ...]

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"https": 443, "http": 80}[self.scheme] else f"{host}:{self.port}"


def permitted_hosts() -> frozenset[str]:
    """Hosts that the operator vouches for."""
    return frozenset(host.lower() for host in settings.WEBHOOK_HOSTS)


def check(url: str, *, permitted: Collection[str]) -> tuple[str, str, int, str]:
    """(scheme, host, port, path) of an address that may be a webhook's, by what it says alone. Raises
    UnableToReach."""
    if len(url) > MAX_URL:
        raise UnableToReach(Text(gettext_noop("An address has at most %(limit)s characters."), limit=MAX_URL))
    if any(character.isspace() or not character.isprintable() for character in url):
        raise UnableToReach(Text(gettext_noop("This is not an address.")))
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower().rstrip("."), parts.port
        host.encode("idna")
    except ValueError:
        raise UnableToReach(Text(gettext_noop("This is not an address."))) from None
    if not host:
        raise UnableToReach(Text(gettext_noop("This is not an address.")))
    if parts.username is not None or parts.password is not None:
        raise UnableToReach(
            Text(gettext_noop("An address carries no password: the signature says who calls."))
        )
    if parts.scheme != "https" and not (parts.scheme == "http" and host in permitted):
        raise UnableToReach(Text(gettext_noop("It has to begin with https://.")))
    if port == 0:
        raise UnableToReach(Text(gettext_noop("This is not an address.")))
    if host not in permitted:
        _refuse_name(host)
        _refuse_literal(host)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not path.isascii():
        raise UnableToReach(
            Text(gettext_noop("The path has to be written with ASCII characters (%%-encoded)."))
        )
    return parts.scheme, host, port or {"https": 443, "http": 80}[parts.scheme], path


def look_up(url: str, *, permitted: Collection[str], resolve: Resolve = socket.getaddrinfo) -> Target:
    """Where to call now. Raises UnableToReach: an address of which any part is private is none."""
    scheme, host, port, path = check(url, permitted=permitted)
    try:
        found = resolve(host.encode("idna").decode(), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        said = Text(gettext_noop("%(host)s cannot be resolved: %(error)s"), host=host, error=str(error))
        raise UnableToReach(said) from None
    addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not addresses:
        raise UnableToReach(Text(gettext_noop("%(host)s has no address."), host=host))
    if host not in permitted:
        for address in addresses:
            _refuse(host, ipaddress.ip_address(address.partition("%")[0]))
    return Target(scheme, host, port, path, addresses)


def _refuse_name(host: str) -> None:
    """Names that lead into the network of whoever asks, whatever a name server says: they are told apart when
    they are entered, since they may well resolve to nothing then."""
    last = host.rpartition(".")[2]
    literal = ":" in host or last.isdigit() or last.startswith("0x")
    if not literal and ("." not in host or host.endswith(tuple(f".{name}" for name in _PRIVATE_NAMES))):
        raise UnableToReach(
            Text(
                gettext_noop(
                    "%(host)s is a name of a private network; the operator can permit the host "
                    "(CLAIMDESK_WEBHOOK_HOSTS)."
                ),
                host=as_written(host),
            )
        )


def _refuse_literal(host: str) -> None:
    try:
        # As libraries read it: 127.1 and 2130706433 are addresses too.
        address: Address = ipaddress.ip_address(socket.inet_ntoa(socket.inet_aton(host)))
    except OSError:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return
    _refuse(host, address)


def _refuse(host: str, address: Address) -> None:
    inner = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    translated = isinstance(address, ipaddress.IPv6Address) and any(address in net for net in _TRANSLATED)
    if translated or not (inner or address).is_global or (inner or address).is_multicast:
        raise UnableToReach(
            Text(
                gettext_noop(
                    "%(host)s is an address of a private network (%(address)s); the operator can permit the "
                    "host (CLAIMDESK_WEBHOOK_HOSTS)."
                ),
                host=as_written(host),
                address=str(address),
            )
        )
