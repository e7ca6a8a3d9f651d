"""The sample people of the demo: who signs in as whom."""

from dataclasses import dataclass

PASSWORD = "accelerate"  # noqa: S105 - printed for everybody to use, on loopback only


@dataclass(frozen=True)
class Person:
    username: str
    first_name: str
    last_name: str
    role: str
    is_administrator: bool = False
    is_finance: bool = False


PEOPLE = (
    Person("rhea", "Rhea", "Okafor", "researcher"),
    Person("mika", "Mika", "Sorensen", "researcher of another project"),
    Person("leo", "Leo", "Marchetti", "project lead"),
    Person("ada", "Ada", "Lindqvist", "platform administrator", is_administrator=True),
    Person("finn", "Finn", "Duarte", "finance", is_finance=True),
)
