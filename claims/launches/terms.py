"""What a launch template says, read from a form or from REST and judged; and what a researcher fills in.

Nothing is ever pasted into a command: what is filled in becomes environment variables, which Kubernetes
itself expands in commands and arguments ("$(EPOCHS)").
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import re2
import yaml
from django.core.validators import validate_slug
from django.forms import ValidationError
from django.utils.translation import gettext as _

from claims.asks.reading import (
    WrongValue,
    WrongValues,
    read_choice,
    read_integer,
    read_many,
    read_quantity,
    read_text,
)
from claims.models import Flavor, LaunchTemplate
from portal import texts
from portal.accounts.models import Project
from portal.dra.quantity import InvalidQuantity, Quantity

T = TypeVar("T")
Kind = LaunchTemplate.Kind

MAX_WORDS = 64
MAX_WORD = 4_096
MAX_ENV = 64
MAX_VOLUMES = 16
MAX_PARAMETERS = 16
MAX_VALUE = 500
MAX_CPU, MAX_MEMORY = "512", "8Ti"

# An image as registries name it: domain/path:tag@digest.
_IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._:/-]*(@sha256:[0-9a-f]{64})?", re.ASCII)
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_PATH = re.compile(r"(/[A-Za-z0-9._-]+)+", re.ASCII)


class UnableToChangeLaunch(WrongValues):
    """`errors` maps field names to messages; `conflict` = somebody else was faster."""


@dataclass(frozen=True, kw_only=True)
class LaunchTerms:
    """As in `claims.models.LaunchTemplate`; projects and flavors by slug."""

    slug: str = ""
    name: str = ""
    description: str = ""
    kind: str = Kind.JOB
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cpu: str = "2"
    memory: str = "8Gi"
    volumes: tuple[Mapping[str, str], ...] = ()
    port: int | None = None
    user_id: int = 1000
    parameters: tuple[Mapping[str, Any], ...] = ()
    flavors: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For audit entries, forms and REST."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()
        }


COLUMNS = tuple(name for name in LaunchTerms.__dataclass_fields__ if name not in ("flavors", "projects"))


def read_launch_terms(values: Mapping[str, object]) -> LaunchTerms:
    """Raises UnableToChangeLaunch with the messages of all fields."""
    errors: dict[str, list[str]] = {}
    found: dict[str, Any] = {}
    for name, read in _READERS.items():
        try:
            found[name] = read(values, name)
        except WrongValue as error:
            errors.setdefault(name, []).append(str(error))
    if "kind" in found and "port" in found:
        if found["kind"] == Kind.NOTEBOOK and found["port"] is None:
            errors.setdefault("port", []).append(_("Say on which port the notebook listens."))
        if found["kind"] == Kind.JOB:
            found["port"] = None
    names = [parameter["name"] for parameter in found.get("parameters", ())]
    if clash := next((name for name in names if name in found.get("env", {})), None):
        errors.setdefault("parameters", []).append(
            _("“%(name)s” is set in the environment already.") % {"name": clash}
        )
    if errors:
        raise UnableToChangeLaunch(errors)
    return LaunchTerms(**found)


def read_parameters(
    template: LaunchTemplate, values: Mapping[str, object]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """What was filled in, by name, and a message for each that will not do. What the template does not ask
    for is left alone."""
    filled: dict[str, str] = {}
    errors: dict[str, list[str]] = {}
    for parameter in template.parameters:
        name = parameter["name"]
        try:
            filled[name] = _parameter_value(parameter, values)
        except WrongValue as error:
            errors[name] = [str(error)]
    return filled, errors


def _parameter_value(parameter: Mapping[str, Any], values: Mapping[str, object]) -> str:
    name = parameter["name"]
    typed = read_text(values, name, limit=MAX_VALUE)
    if "\n" in typed:
        raise WrongValue(_("Write it in one line."))
    if not typed and name not in values:
        typed = str(parameter.get("default") or "")
    if not typed:
        if parameter.get("required"):
            raise WrongValue(_("Fill this in."))
        return ""
    if (choices := parameter.get("choices")) and typed not in choices:
        raise WrongValue(_("Choose one of: %(choices)s.") % {"choices": ", ".join(choices)})
    if (pattern := parameter.get("pattern")) and re2.fullmatch(pattern, typed) is None:
        raise WrongValue(_("It has to look like this: %(pattern)s") % {"pattern": pattern})
    return typed


# --- one reader per field --------------------------------------------------------------------------


def _slug(values: Mapping[str, object], name: str) -> str:
    slug = read_text(values, name, limit=40)
    try:
        validate_slug(slug)
    except ValidationError:
        slug = ""
    if not _LABEL.fullmatch(slug):
        raise WrongValue(_("Use lower-case letters, digits and hyphens."))
    return slug


def _name(values: Mapping[str, object], name: str) -> str:
    try:
        found = texts.name(read_text(values, name, limit=80))
    except texts.UncleanText as unclean:
        raise WrongValue(unclean.message) from None
    if not found:
        raise WrongValue(_("Give it a name."))
    return found


def _image(values: Mapping[str, object], name: str) -> str:
    image = read_text(values, name, limit=400)
    if not _IMAGE.fullmatch(image):
        raise WrongValue(_("Name an image, such as registry.example.org/lab/train:1.4."))
    return image


def _words(values: Mapping[str, object], name: str) -> tuple[str, ...]:
    """A list, or one word a line (blanks belong to the word)."""
    typed = values.get(name)
    found = read_many(values, name) if isinstance(typed, list) else read_text(values, name).splitlines()
    words = tuple(word for word in found if word.strip())
    if len(words) > MAX_WORDS or any(len(word) > MAX_WORD for word in words):
        raise WrongValue(
            _("At most %(words)s words of %(length)s characters.") % {"words": MAX_WORDS, "length": MAX_WORD}
        )
    return words


def _env(values: Mapping[str, object], name: str) -> dict[str, str]:
    """An object, or lines of NAME=value."""
    typed = values.get(name)
    if isinstance(typed, Mapping):
        pairs = [(str(key), read_text(typed, key, limit=MAX_WORD)) for key in typed]
    else:
        pairs = []
        for line in filter(str.strip, read_text(values, name).splitlines()):
            key, equals, value = line.partition("=")
            if not equals:
                raise WrongValue(_("Write one variable a line, as NAME=value."))
            pairs.append((key.strip(), value.strip()))
    for key, _value in pairs:
        if not _ENV.fullmatch(key):
            raise WrongValue(_("“%(name)s” is no name of a variable.") % {"name": key[:63]})
    if len(pairs) > MAX_ENV:
        raise WrongValue(_("At most %(limit)s.") % {"limit": MAX_ENV})
    return dict(pairs)


def _amount(most: str) -> Callable[[Mapping[str, object], str], str]:
    def read(values: Mapping[str, object], name: str) -> str:
        typed = read_text(values, name, limit=32)
        try:
            wanted = Quantity.parse(typed)
        except InvalidQuantity:
            raise WrongValue(_("“%(typed)s” is not an amount.") % {"typed": typed[:32]}) from None
        if not Quantity.parse("0") < wanted <= Quantity.parse(most):
            raise WrongValue(_("More than nothing, and at most %(most)s.") % {"most": most})
        return typed

    return read


def _volumes(values: Mapping[str, object], name: str) -> tuple[dict[str, str], ...]:
    """Objects {"path", "claim"} or {"path", "size"}; as lines: /data=claim-name, /scratch=empty:10Gi."""
    typed = values.get(name)
    found: list[dict[str, str]] = []
    if isinstance(typed, list):
        for entry in typed:
            if not isinstance(entry, Mapping):
                raise WrongValue(_("A volume is an object with path and claim, or path and size."))
            found.append({key: read_text(entry, key, limit=253) for key in ("path", "claim", "size")})
    else:
        for line in filter(None, map(str.strip, read_text(values, name).splitlines())):
            path, equals, source = (part.strip() for part in line.partition("="))
            if not equals:
                raise WrongValue(_("Write one volume a line, as /path=claim or /path=empty:10Gi."))
            empty = source.startswith("empty:")
            size = source.removeprefix("empty:") if empty else ""
            found.append({"path": path, "claim": "" if empty else source, "size": size})
    if len(found) > MAX_VOLUMES:
        raise WrongValue(_("At most %(limit)s.") % {"limit": MAX_VOLUMES})
    for entry in found:
        _check_volume(entry)
    if len({entry["path"] for entry in found}) < len(found):
        raise WrongValue(_("Two volumes have the same path."))
    return tuple({key: value for key, value in entry.items() if value} for entry in found)


def _check_volume(entry: Mapping[str, str]) -> None:
    if not _PATH.fullmatch(entry["path"]) or any(part in (".", "..") for part in entry["path"].split("/")):
        raise WrongValue(_("“%(path)s” is no path to mount at.") % {"path": entry["path"][:80]})
    if bool(entry["claim"]) == bool(entry["size"]):
        raise WrongValue(_("A volume is a claim by its name, or empty with a size."))
    if entry["claim"] and not _SUBDOMAIN.fullmatch(entry["claim"]):
        raise WrongValue(_("“%(name)s” is no name of a claim.") % {"name": entry["claim"][:80]})
    if entry["size"]:
        read_quantity(entry, "size")


def _port(values: Mapping[str, object], name: str) -> int | None:
    port = read_integer(values, name)
    if port is not None and not 1 <= port <= 65_535:
        raise WrongValue(_("A port is a number from 1 to 65535."))
    return port


def _user_id(values: Mapping[str, object], name: str) -> int:
    found = read_integer(values, name)
    if found is None:
        return LaunchTerms.user_id
    if not 1 <= found < 2**31:
        raise WrongValue(_("A number from 1 on: nothing runs as root."))
    return found


def _parameters(values: Mapping[str, object], name: str) -> tuple[dict[str, Any], ...]:
    """A list of objects; as text the same in YAML."""
    typed = values.get(name)
    if not isinstance(typed, list):
        try:
            typed = yaml.safe_load(read_text(values, name, limit=10_000) or "[]")
        except (yaml.YAMLError, ValueError, RecursionError):
            raise WrongValue(_("This is not YAML.")) from None
    if not isinstance(typed, list) or not all(isinstance(entry, Mapping) for entry in typed):
        raise WrongValue(_("Write a list; each entry has a name and a label."))
    if len(typed) > MAX_PARAMETERS:
        raise WrongValue(_("At most %(limit)s.") % {"limit": MAX_PARAMETERS})
    found = [_parameter(entry) for entry in typed]
    if len({entry["name"] for entry in found}) < len(found):
        raise WrongValue(_("Two have the same name."))
    return tuple(found)


def _parameter(entry: Mapping[str, object]) -> dict[str, Any]:
    key = read_text(entry, "name", limit=63)
    if not _ENV.fullmatch(key):
        raise WrongValue(_("“%(name)s” is no name of a variable.") % {"name": key})
    if strange := set(entry) - {"name", "label", "default", "pattern", "choices", "required"}:
        raise WrongValue(
            _("%(name)s: “%(key)s” is not known.") % {"name": key, "key": str(min(strange, key=str))[:40]}
        )
    pattern = read_text(entry, "pattern", limit=200)
    try:
        re2.compile(pattern)
    except re2.error:
        raise WrongValue(_("%(name)s: this pattern cannot be read.") % {"name": key}) from None
    choices = [str(choice) for choice in _list(entry.get("choices"))]
    if len(choices) > 50 or any(not 0 < len(choice) <= MAX_VALUE for choice in choices):
        raise WrongValue(_("%(name)s: at most %(limit)s choices.") % {"name": key, "limit": 50})
    found = {
        "name": key,
        "label": read_text(entry, "label", limit=80) or key,
        "default": read_text(entry, "default", limit=MAX_VALUE),
        "pattern": pattern,
        "choices": [read_text({"x": choice}, "x") for choice in choices],
        "required": entry.get("required") is True,
    }
    if found["default"]:
        try:
            _parameter_value(found, {})
        except WrongValue as error:
            raise WrongValue(f"{key}: {error}") from None
    return {name: value for name, value in found.items() if value}


def _list(value: object) -> Sequence[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise WrongValue(_("This must be a list."))
    return value


def _flavors(values: Mapping[str, object], name: str) -> tuple[str, ...]:
    slugs = set(read_many(values, name))
    known = set(Flavor.objects.filter(slug__in=slugs).values_list("slug", flat=True))
    if unknown := slugs - known:
        raise WrongValue(_("There is no flavor “%(name)s”.") % {"name": min(unknown)[:63]})
    return tuple(sorted(slugs))


def _projects(values: Mapping[str, object], name: str) -> tuple[str, ...]:
    slugs = set(read_many(values, name))
    known = set(Project.objects.filter(slug__in=slugs).values_list("slug", flat=True))
    if unknown := slugs - known:
        raise WrongValue(_("There is no project “%(name)s”.") % {"name": min(unknown)[:63]})
    return tuple(sorted(slugs))


_READERS: Mapping[str, Callable[[Mapping[str, object], str], Any]] = {
    "slug": _slug,
    "name": _name,
    "description": lambda values, name: read_text(values, name, limit=1_000),
    "kind": lambda values, name: read_choice(values, name, Kind.values),
    "image": _image,
    "command": _words,
    "args": _words,
    "env": _env,
    "cpu": _amount(MAX_CPU),
    "memory": _amount(MAX_MEMORY),
    "volumes": _volumes,
    "port": _port,
    "user_id": _user_id,
    "parameters": _parameters,
    "flavors": _flavors,
    "projects": _projects,
}
