"""The name formats of Kubernetes and of DRA."""

import re

from portal.demo.rules.report import Report

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
IDENTIFIER_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
    "'[A-Za-z_][A-Za-z0-9_]*')"
)


def label_problem(text: str) -> str:
    """Why ``text`` is not a DNS label; empty when it is one."""
    if len(text) > 63:
        return "must be no more than 63 bytes"
    return "" if _LABEL.fullmatch(text) else LABEL_TEXT


def subdomain_problem(text: str, *, longest: int = 253) -> str:
    """Why ``text`` is not a DNS subdomain; empty when it is one."""
    if len(text) > longest:
        return f"must be no more than {longest} bytes"
    return "" if _SUBDOMAIN.fullmatch(text) else SUBDOMAIN_TEXT


def qualified_problem(text: str) -> str:
    """Why ``text`` is not a qualified name such as a label key; empty when it is one."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return "a qualified name " + QUALIFIED_TEXT + " with an optional DNS subdomain prefix and '/'"
    if slash and not prefix:
        return "prefix part must be non-empty"
    if prefix and (problem := subdomain_problem(prefix)):
        return "prefix part " + problem
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return "" if _QUALIFIED.fullmatch(name) else QUALIFIED_TEXT


def label_value_problem(text: str) -> str:
    """Why ``text`` is not the value of a label; empty when it is one."""
    if len(text) > 63:
        return "must be no more than 63 bytes"
    return (
        ""
        if not text or _QUALIFIED.fullmatch(text)
        else "a valid label must be an empty string or " + QUALIFIED_TEXT
    )


def check_label(report: Report, path: str, text: str) -> None:
    """A name that has to be a DNS label."""
    if problem := label_problem(text):
        report.invalid(path, text, problem)


def check_subdomain(report: Report, path: str, text: str, *, longest: int = 253) -> None:
    """A name that has to be there and be a DNS subdomain."""
    if not text:
        report.required(path)
    elif problem := subdomain_problem(text, longest=longest):
        report.invalid(path, text, problem)


def check_driver(report: Report, path: str, text: str) -> None:
    """A DRA driver's name: a DNS subdomain of at most 63 characters."""
    if not text:
        report.required(path)
    elif len(text) > 63:
        report.too_long(path, 63)
    elif problem := subdomain_problem(text):
        report.invalid(path, text, problem)


def check_pool(report: Report, path: str, text: str) -> None:
    """A pool's name: DNS subdomains between slashes."""
    if not text:
        report.required(path)
    elif len(text) > 253:
        report.too_long(path, 253)
    else:
        for part in text.split("/"):
            if problem := subdomain_problem(part):
                report.invalid(path, part, problem)


def check_device_field(report: Report, path: str, text: str, *, domain_required: bool = False) -> None:
    """Name of an attribute or capacity: a C identifier of at most 32 characters, after a domain if any."""
    domain, slash, identifier = text.rpartition("/")
    if not text:
        report.invalid(path, text, IDENTIFIER_TEXT)
        return
    if not slash and domain_required:
        why = "a fully qualified name must be a domain and a name separated by a slash"
        report.invalid(path, text, why)
    if slash:
        if not domain:
            report.invalid(path, "", "the domain must not be empty")
        elif len(domain) > 63:
            report.too_long(path, 63)
        elif problem := subdomain_problem(domain):
            report.invalid(path, domain, problem)
    if not identifier:
        report.invalid(path, "", "the name must not be empty")
    elif len(identifier) > 32:
        report.too_long(path, 32)
    elif not _IDENTIFIER.fullmatch(identifier):
        report.invalid(path, identifier, IDENTIFIER_TEXT)
