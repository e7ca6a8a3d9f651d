"""Which nodes a NodeSelector admits, and how the selectors of several devices become one."""

from collections.abc import Iterable

from portal.dra.model import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

_NAME_FIELD = "metadata.name"


class UnusableSelector(ValueError):
    """A node selector that the API server would not have admitted."""


def matches(selector: NodeSelector, node: Node) -> bool:
    """Terms are alternatives; a term without requirements admits no node. Raises UnusableSelector."""
    return any(_term_matches(term, node) for term in selector.node_selector_terms)


def only(node_name: str) -> NodeSelector:
    """The selector that admits exactly the node of this name."""
    requirement = NodeSelectorRequirement(key=_NAME_FIELD, operator="In", values=(node_name,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(requirement,)),))


def merge(selectors: Iterable[NodeSelector]) -> NodeSelector | None:
    """One selector that admits what all of them admit; None when nothing restricts the choice.

    Selectors of slices have exactly one term, so that their requirements can stand side by side (each once).
    Raises UnusableSelector for several terms.
    """
    fields: dict[NodeSelectorRequirement, None] = {}
    expressions: dict[NodeSelectorRequirement, None] = {}
    for selector in selectors:
        terms = selector.node_selector_terms
        if len(terms) > 1:
            raise UnusableSelector(f"a node selector of a slice has one term, not {len(terms)}")
        for term in terms:
            fields.update(dict.fromkeys(term.match_fields))
            expressions.update(dict.fromkeys(term.match_expressions))
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(term,))


def _term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return all(_holds(requirement, node.metadata.labels) for requirement in term.match_expressions) and all(
        _field_holds(requirement, node) for requirement in term.match_fields
    )


def _field_holds(requirement: NodeSelectorRequirement, node: Node) -> bool:
    if requirement.key != _NAME_FIELD or requirement.operator not in ("In", "NotIn"):
        raise UnusableSelector(
            f"matchFields knows metadata.name In or NotIn, not {requirement.key} {requirement.operator}"
        )
    return (node.metadata.name in requirement.values) == (requirement.operator == "In")


def _holds(requirement: NodeSelectorRequirement, labels: dict[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
    raise UnusableSelector(f"unknown operator {requirement.operator!r}")


def _compares(requirement: NodeSelectorRequirement, value: str | None) -> bool:
    try:
        (bound,) = (int(text) for text in requirement.values)
    except ValueError:
        raise UnusableSelector(f"{requirement.operator} compares with one integer") from None
    if value is None:
        return False
    try:
        number = int(value)
    except ValueError:
        return False
    return number > bound if requirement.operator == "Gt" else number < bound
