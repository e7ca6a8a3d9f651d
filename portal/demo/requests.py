"""Reading a request: which resource a path names, and what the query parameters ask for."""

from collections.abc import Mapping
from dataclasses import dataclass

from portal.demo import errors
from portal.demo.catalog import Catalog
from portal.demo.resources import Resource


@dataclass(frozen=True, slots=True)
class Target:
    """What a path under ``/api`` or ``/apis`` names."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target(path: str, catalog: Catalog) -> Target | None:
    """The resource, namespace, name and subresource of ``path``; None when it names none of ours."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource = catalog.by_path.get((group, version, rest[0]))
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        return None
    if resource.namespaced and not namespace and len(rest) > 1:
        return None
    return Target(resource, namespace, *rest[1:])


@dataclass(frozen=True, slots=True)
class Query:
    """Query parameters with the API's own way of reading them."""

    values: Mapping[str, str]

    def text(self, name: str) -> str:
        return self.values.get(name, "")

    def flag(self, name: str) -> bool:
        """As the API server reads a boolean: absent, ``0`` and ``false`` are false."""
        return name in self.values and self.values[name].lower() not in ("0", "false")

    def number(self, name: str) -> int:
        """A number ≥ 0, 0 when absent; 400 otherwise."""
        text = self.values.get(name, "")
        if not text:
            return 0
        try:
            number = int(text)
        except ValueError:
            raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
        if number < 0:
            raise errors.bad_request(f"{name}: Invalid value: {number}: must be greater than or equal to 0")
        return number

    def dry_run(self) -> bool:
        """Whether nothing may be stored; only ``All`` is known."""
        value = self.values.get("dryRun", "")
        if value not in ("", "All"):
            cause = errors.Cause(
                "dryRun", "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: "All"'
            )
            raise errors.invalid("meta.k8s.io", "CreateOptions", "", [cause])
        return value == "All"

    def revision(self) -> int | None:
        """``resourceVersion``: None when absent; 400 when it is not a number."""
        text = self.values.get("resourceVersion", "")
        if not text:
            return None
        if not text.isdecimal():
            why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
            raise errors.bad_request(f'resourceVersion: Invalid value: "{text}": {why}')
        return int(text)
