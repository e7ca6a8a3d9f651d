"""Kubernetes' URL, IP and CIDR libraries."""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
from typing import Final

from portal.dra.cel.errors import CelEvaluationError
from portal.dra.cel.library.registry import TRAVERSAL, declare, traversal
from portal.dra.cel.values import MapValue, register

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class InvalidText(ValueError):
    """Text that is no URL, address or prefix."""


# --- URLs ---------------------------------------------------------------------------------------------------

_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", re.DOTALL | re.ASCII)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
_HOST: Final = re.compile(r"(?:[A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"]|%[0-9a-fA-F]{2}|[^\x00-\x7f])*")
_USER: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_PATH_SAFE: Final = "$&+,/:;=@-_.~!'()*[]"


class Url:
    """An absolute URL or path, read as Go's net/url does."""

    __slots__ = ("escaped_path", "host", "query", "scheme", "text")

    def __init__(self, text: str) -> None:
        if text == "" or _CONTROL.search(text):
            raise InvalidText("empty url" if text == "" else "invalid control character in URL")
        self.text = text
        if text == "*":
            self.scheme = self.host = self.query = self.escaped_path = ""
            return
        body, _, fragment = text.partition("#")
        if _BAD_ESCAPE.search(fragment):
            raise InvalidText("invalid URL escape in the fragment")
        scheme, rest = self._scheme(body)
        self.scheme = scheme.lower()
        rest, question, query = rest.partition("?")
        self.query = query if question else ""
        if not rest.startswith("/"):
            if not scheme:
                raise InvalidText("invalid URI for request")
            # mailto:someone and the like have no host and no path.
            self.host = self.escaped_path = ""
            return
        self.host = ""
        if rest.startswith("//") and (scheme or not rest.startswith("///")):
            authority, slash, path = rest[2:].partition("/")
            self.host = self._authority(authority)
            rest = slash + path
        if _BAD_ESCAPE.search(rest):
            raise InvalidText("invalid URL escape in the path")
        self.escaped_path = self._escape_path(rest)

    @staticmethod
    def _scheme(body: str) -> tuple[str, str]:
        if body.startswith(":"):
            raise InvalidText("missing protocol scheme")
        match = _SCHEME.fullmatch(body)
        if match:
            return match[1], match[2]
        first = re.split(r"[:/?]", body, maxsplit=1)[0]
        if body[len(first) : len(first) + 1] == ":" and re.match(r"[0-9+.-]", first):
            raise InvalidText("first path segment in URL cannot contain colon")
        return "", body

    @staticmethod
    def _authority(authority: str) -> str:
        user, at, host = authority.rpartition("@")
        if at and not _USER.fullmatch(user):
            raise InvalidText("net/url: invalid userinfo")
        if host.startswith("["):
            closing = host.rfind("]")
            if closing < 0:
                raise InvalidText("missing ']' in host")
            port = host[closing + 1 :]
        else:
            port = host[host.rfind(":") :] if ":" in host else ""
        if not _PORT.fullmatch(port):
            raise InvalidText(f'invalid port "{port}" after host')
        if not _HOST.fullmatch(host):
            raise InvalidText("invalid character in host name")
        return urllib.parse.unquote(host)

    @staticmethod
    def _escape_path(path: str) -> str:
        if re.fullmatch(r"(?:[A-Za-z0-9\-_.~$&+,/:;=@!'()*\[\]]|%[0-9a-fA-F]{2})*", path, re.ASCII):
            return path
        return urllib.parse.quote(urllib.parse.unquote(path), safe="$&+,/:;=@-_.~")

    @property
    def hostname(self) -> str:
        host = self.host
        if host.startswith("["):
            return host[1 : host.rfind("]")]
        return host.rpartition(":")[0] if ":" in host else host

    @property
    def port(self) -> str:
        tail = self.host.rpartition("]")[2]
        return tail.rpartition(":")[2] if ":" in tail else ""

    def arguments(self) -> MapValue:
        """The query as a map from name to the list of its values, malformed parts left out."""
        values: dict[str, list[str]] = {}
        for part in self.query.split("&"):
            if not part or ";" in part or _BAD_ESCAPE.search(part):
                continue
            name, _, value = part.partition("=")
            values.setdefault(urllib.parse.unquote_plus(name), []).append(urllib.parse.unquote_plus(value))
        result = MapValue()
        for name, items in values.items():
            result.put(name, items)
        return result

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and self.text == other.text

    def __hash__(self) -> int:
        return hash(("url", self.text))


def _url(text: str) -> Url:
    try:
        return Url(text)
    except InvalidText as error:
        raise CelEvaluationError(f"URL parse error during conversion from string: {error}") from error


def _is_url(text: str) -> bool:
    try:
        Url(text)
    except InvalidText:
        return False
    return True


register(Url, "object:kubernetes.URL")
declare("url(string) -> URL", _url, traversal())
declare("isURL(string) -> bool", _is_url, traversal())
declare("URL::getScheme() -> string", lambda url: url.scheme)
declare("URL::getHost() -> string", lambda url: url.host)
declare("URL::getHostname() -> string", lambda url: url.hostname)
declare("URL::getPort() -> string", lambda url: url.port)
declare("URL::getEscapedPath() -> string", lambda url: url.escaped_path)
declare("URL::getQuery() -> map<string, list<string>>", Url.arguments)

# --- addresses ----------------------------------------------------------------------------------------------

_BITS: Final = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)


class Ip:
    """An IPv4 or IPv6 address without zone; IPv4 written as IPv6 is refused."""

    __slots__ = ("address",)

    def __init__(self, address: Address) -> None:
        self.address = address

    @classmethod
    def parse(cls, text: str) -> Ip:
        if "%" in text:
            raise InvalidText("IP address with zone value is not allowed")
        try:
            address = ipaddress.ip_address(text)
        except ValueError as error:
            raise InvalidText(f"unable to parse IP: {error}") from error
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            raise InvalidText("IPv4-mapped IPv6 address is not allowed")
        return cls(address)

    def cost_size(self) -> int:
        return len(self.address.packed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ip) and self.address == other.address

    def __hash__(self) -> int:
        return hash(("ip", self.address))


class Cidr:
    """An address with the length of its prefix; bits behind the prefix may be set."""

    __slots__ = ("address", "length", "network")

    def __init__(self, address: Address, length: int) -> None:
        self.address = address
        self.length = length
        self.network = ipaddress.ip_network((address, length), strict=False)

    @classmethod
    def parse(cls, text: str) -> Cidr:
        host, slash, bits = text.rpartition("/")
        if not slash or not _BITS.fullmatch(bits):
            raise InvalidText("network address parse error: no prefix length")
        address = Ip.parse(host).address
        if int(bits) > address.max_prefixlen:
            raise InvalidText("network address parse error: prefix length out of range")
        return cls(address, int(bits))

    def cost_size(self) -> int:
        return len(self.address.packed)

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cidr) and self.address == other.address and self.length == other.length

    def __hash__(self) -> int:
        return hash(("cidr", self.address, self.length))

    def contains_ip(self, ip: Ip) -> bool:
        return ip.address in self.network

    def contains_cidr(self, other: Cidr) -> bool:
        return other.length >= self.length and other.network.network_address in self.network

    def masked(self) -> Cidr:
        return Cidr(self.network.network_address, self.length)


def _ip(text: str) -> Ip:
    try:
        return Ip.parse(text)
    except InvalidText as error:
        raise CelEvaluationError(
            f'IP Address "{text}" parse error during conversion from string: {error}'
        ) from error


def _is_ip(text: str) -> bool:
    try:
        Ip.parse(text)
    except InvalidText:
        return False
    return True


def _is_canonical(text: str) -> bool:
    return str(_ip(text).address) == text


def _cidr(text: str) -> Cidr:
    try:
        return Cidr.parse(text)
    except InvalidText as error:
        raise CelEvaluationError(
            f"network address parse error during conversion from string: {error}"
        ) from error


def _is_cidr(text: str) -> bool:
    try:
        Cidr.parse(text)
    except InvalidText:
        return False
    return True


def _is_global_unicast(ip: Ip) -> bool:
    """Go's idea of it: anything that is not one of the special kinds, private addresses included."""
    address = ip.address
    broadcast = str(address) == "255.255.255.255"
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or broadcast
    )


def _is_link_local_multicast(ip: Ip) -> bool:
    address = ip.address
    if isinstance(address, ipaddress.IPv4Address):
        return address.packed[:3] == b"\xe0\x00\x00"
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 2


def _is_link_local_unicast(ip: Ip) -> bool:
    return ip.address.is_link_local


_COMPARE: Final = int(-(-16 * 2 * TRAVERSAL // 1))

register(Ip, "object:net.IP")
register(Cidr, "object:net.CIDR")
declare("ip(string) -> IP", _ip, traversal())
declare("isIP(string) -> bool", _is_ip, traversal())
declare("ip.isCanonical(string) -> bool", _is_canonical, traversal(2.0))
declare("string(IP) -> string", lambda ip: str(ip.address))
declare("IP::family() -> int", lambda ip: ip.address.version)
declare("IP::isUnspecified() -> bool", lambda ip: ip.address.is_unspecified)
declare("IP::isLoopback() -> bool", lambda ip: ip.address.is_loopback)
declare("IP::isLinkLocalMulticast() -> bool", _is_link_local_multicast)
declare("IP::isLinkLocalUnicast() -> bool", _is_link_local_unicast)
declare("IP::isGlobalUnicast() -> bool", _is_global_unicast)
declare("cidr(string) -> CIDR", _cidr, traversal())
declare("isCIDR(string) -> bool", _is_cidr, traversal())
declare("string(CIDR) -> string", str)
declare("CIDR::containsIP(IP) -> bool", Cidr.contains_ip, lambda _args, _result: _COMPARE)
declare("CIDR::containsIP(string) -> bool", lambda cidr, text: cidr.contains_ip(_ip(text)), traversal(1.0, 1))
declare("CIDR::containsCIDR(CIDR) -> bool", Cidr.contains_cidr, lambda _args, _result: _COMPARE + 3)
declare(
    "CIDR::containsCIDR(string) -> bool",
    lambda cidr, text: cidr.contains_cidr(_cidr(text)),
    traversal(1.0, 1),
)
declare("CIDR::ip() -> IP", lambda cidr: Ip(cidr.address))
declare("CIDR::masked() -> CIDR", Cidr.masked)
declare("CIDR::prefixLength() -> int", lambda cidr: cidr.length)
