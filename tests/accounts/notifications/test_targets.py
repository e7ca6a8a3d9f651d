"""Where webhooks may lead: nowhere into the desk's own network, whatever the address looks like."""

import socket
from typing import Any

import pytest

from portal.accounts.notifications.targets import UnableToReach, check, look_up


def resolving_to(*addresses: str) -> Any:
    return lambda _host, port, **_kwargs: [(socket.AF_INET, 1, 6, "", (at, port)) for at in addresses]


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.org/",
        "ftp://hooks.example.org/",
        "https://",
        "https:///path",
        "hooks.example.org",
        "javascript:alert(1)",
        "https://ada:secret@hooks.example.org/",
        "https://hooks.example.org:0/",
        "https://hooks.example.org:99999/",
        "https://hooks.example.org/a b",
        "https://hooks.example.org/\r\nX-Evil: 1",
        "https://hooks.example.org/潮汐",
        "https://" + "a" * 500 + ".org/",
        "https://[::1/",
        "https://127.0.0.1/",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://0/",
        "https://10.1.2.3/",
        "https://169.254.169.254/latest/meta-data/",
        "https://100.64.0.1/",
        "https://192.168.0.1/",
        "https://224.0.0.1/",
        "https://[::1]/",
        "https://[fe80::1]/",
        "https://[fd00::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://[64:ff9b::a00:1]/",
        "https://[2002:a00:1::]/",
    ],
)
def test_refused_by_what_it_says(url: str) -> None:
    with pytest.raises(UnableToReach):
        check(url, permitted=())


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost.",
        "LOCALHOST",
        "desk.localhost",
        "intranet",
        "printer.local",
        "chat.corp",
        "chat.internal",
        "router.home.arpa",
        "api.default.svc",
        "api.default.svc.cluster.local",
        "localhost.localdomain",
    ],
)
def test_a_private_name_is_refused_by_name_when_it_is_entered_and_when_it_is_called(host: str) -> None:
    with pytest.raises(UnableToReach, match=f"{host.lower().rstrip('.')} is a name of a private network"):
        check(f"https://{host}/hook", permitted=())
    with pytest.raises(UnableToReach, match="is a name of a private network"):
        look_up(f"https://{host}/hook", permitted=(), resolve=resolving_to("93.184.216.34"))
    assert check(f"https://{host}:8443/hook", permitted={host.lower().rstrip(".")})[2] == 8443


@pytest.mark.parametrize(
    "host", ["hooks.example.org", "local.example.org", "svc.example.org", "93.184.216.34"]
)
def test_other_names_are_not(host: str) -> None:
    assert check(f"https://{host}/", permitted=())[1] == host


@pytest.mark.parametrize("address", ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fe80::1%eth0"])
def test_refused_by_what_it_resolves_to(address: str) -> None:
    with pytest.raises(UnableToReach, match="private network"):
        look_up("https://hooks.example.org/", permitted=(), resolve=resolving_to("93.184.216.34", address))


def test_the_address_that_was_checked_is_the_one_that_is_called() -> None:
    target = look_up("https://Hooks.Example.org/a?b=c", permitted=(), resolve=resolving_to("93.184.216.34"))
    assert (target.addresses, target.host, target.port) == (("93.184.216.34",), "hooks.example.org", 443)
    assert (target.path, target.authority) == ("/a?b=c", "hooks.example.org")


def test_the_operator_vouches_for_hosts() -> None:
    target = look_up(
        "http://chat.internal:8080/x", permitted={"chat.internal"}, resolve=resolving_to("10.0.0.9")
    )
    assert (target.scheme, target.authority) == ("http", "chat.internal:8080")


def test_a_name_that_there_is_not_is_said() -> None:
    def nobody(*_args: object, **_kwargs: object) -> list[Any]:
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(UnableToReach, match="cannot be resolved"):
        look_up("https://hooks.example.org/", permitted=(), resolve=nobody)
