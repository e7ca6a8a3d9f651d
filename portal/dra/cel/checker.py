"""The type checker: gives every node a type and every call its overloads, or says what does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from portal.dra.cel import ast, types
from portal.dra.cel.environment import TYPE_NAMES, Environment
from portal.dra.cel.errors import CelCompileError
from portal.dra.cel.library import Overload
from portal.dra.cel.parser import qualified_name
from portal.dra.cel.syntax import Source
from portal.dra.cel.types import Substitution, Type

_OPERATOR_NAMES: Final = {"_&&_": "_&&_", "_||_": "_||_"}


def check(node: ast.Node, source: Source, environment: Environment) -> Type:
    """Check the tree; returns the type of the result, raises CelCompileError."""
    checker = _Checker(source, environment)
    checker.check(node)
    checker.settle()
    if not environment.may_return(node.type):
        raise CelCompileError(f"must evaluate to bool or the unknown type, not {node.type}")
    return node.type


class _Checker:
    def __init__(self, source: Source, environment: Environment) -> None:
        self.source = source
        self.environment = environment
        self.known = Substitution()
        self.scopes: list[dict[str, Type]] = [{"device": types.DEVICE}]
        self.fresh = 0
        self.checked: list[ast.Node] = []

    def new_parameter(self) -> Type:
        self.fresh += 1
        return types.parameter(f"_var{self.fresh}")

    def settle(self) -> None:
        """Once all is known, fill in what type parameters stand for."""
        for node in self.checked:
            node.type = self.known.apply(node.type, open_to_dyn=True)

    def check(self, node: ast.Node) -> Type:
        match node:
            case ast.Const():
                node.type = _type_of_constant(node.value)
            case ast.Ident():
                node.type = self.identifier(node)
            case ast.Select():
                node.type = self.select(node)
            case ast.Call():
                node.type = self.call(node)
            case ast.ListLiteral():
                node.type = self.list_literal(node)
            case ast.MapLiteral():
                node.type = self.map_literal(node)
            case ast.Comprehension():
                node.type = self.comprehension(node)
            case ast.Bind():
                value = self.check(node.value)
                node.type = self.check_in_scope({node.name: value}, node.body)
            case ast.OptionalMap():
                node.type = self.optional_map(node)
        self.checked.append(node)
        return node.type

    def check_in_scope(self, names: dict[str, Type], node: ast.Node) -> Type:
        self.scopes.append(names)
        result = self.check(node)
        self.scopes.pop()
        return result

    def fits(self, given: Type, wanted: Type) -> bool:
        return self.known.assign([(given, wanted)])

    def show(self, type_: Type) -> str:
        return str(self.known.apply(type_, open_to_dyn=True))

    # --- names ----------------------------------------------------------------------------------------------

    def lookup(self, name: str) -> Type | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def identifier(self, node: ast.Ident) -> Type:
        found = self.lookup(node.name)
        if found is not None:
            return found
        if node.name in TYPE_NAMES:
            return types.type_of(TYPE_NAMES[node.name])
        raise self.source.error(f"undeclared reference to '{node.name}' (in container '')", node.at)

    def select(self, node: ast.Select) -> Type:
        path = qualified_name(node)
        if path is not None and not node.test and not node.optional and path in TYPE_NAMES:
            node.path = path
            return types.type_of(TYPE_NAMES[path])
        field = self.field_type(node, self.check(node.operand))
        if node.test:
            return types.BOOL
        return field

    def field_type(self, node: ast.Select, operand: Type) -> Type:
        target, was_optional = types.unwrap_optional(self.known.apply(operand))
        if target.kind == "map":
            result = target.params[1]
        elif target == types.DEVICE:
            field = self.environment.device_fields.get(node.name)
            if field is None:
                raise self.source.error(f"undefined field '{node.name}'", node.at)
            result = field
        elif target.kind == "param":
            self.fits(types.DYN, target)
            result = types.DYN
        elif target.is_dynamic:
            result = types.DYN
        else:
            raise self.source.error(f"type '{self.show(target)}' does not support field selection", node.at)
        return types.optional_of(result) if was_optional or node.optional else result

    # --- calls ----------------------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> Type:
        function = node.function
        if node.target is not None:
            prefix = qualified_name(node.target)
            if prefix is not None and self.environment.function(f"{prefix}.{function}") is not None:
                node.function, node.target = f"{prefix}.{function}", None
        given = [self.check(argument) for argument in node.operands]
        overloads = self.environment.function(node.function)
        if overloads is None:
            raise self.source.error(f"undeclared reference to '{node.function}' (in container '')", node.at)
        if node.function in _OPERATOR_NAMES:
            return self.logical(node, given, overloads)
        return self.resolve(node, overloads, given)

    def logical(self, node: ast.Call, given: Sequence[Type], overloads: list[Overload]) -> Type:
        for argument in given:
            if not self.fits(argument, types.BOOL):
                pair = [given[0], argument] if argument is not given[0] else list(given[:2])
                raise self.no_overload(node, pair)
        node.overloads = overloads
        return types.BOOL

    def no_overload(self, node: ast.Call, given: Sequence[Type]) -> CelCompileError:
        shown = [self.show(argument) for argument in given]
        receiver = f"{shown.pop(0)}." if node.target is not None else ""
        signature = f"{receiver}({', '.join(shown)})"
        return self.source.error(
            f"found no matching overload for '{node.function}' applied to '{signature}'", node.at
        )

    def resolve(self, node: ast.Call, overloads: list[Overload], given: Sequence[Type]) -> Type:
        """All overloads that may apply; if their results differ, the result is dynamic."""
        result: Type | None = None
        node.overloads = []
        for overload in overloads:
            if overload.member != (node.target is not None) or len(overload.params) != len(given):
                continue
            fresh = Substitution({name: self.new_parameter() for name in _parameters(overload)})
            wanted = [fresh.apply(type_) for type_ in overload.params]
            if not self.known.assign(zip(given, wanted, strict=True)):
                continue
            node.overloads.append(overload)
            found = self.known.apply(fresh.apply(overload.result))
            if result is None:
                result = found
            elif not result.is_dynamic and found != result:
                result = types.DYN
        if result is None:
            raise self.no_overload(node, given)
        return result

    # --- literals -------------------------------------------------------------------------------------------

    def join(self, previous: Type | None, current: Type, node: ast.Node) -> Type:
        """The common type of a literal's elements: Kubernetes wants them alike."""
        if previous is None:
            return current
        if self.fits(previous, current):
            return previous if types.less_specific(previous, current) else current
        raise self.source.error(
            f"expected type '{self.show(previous)}' but found '{self.show(current)}'", node.at
        )

    def optional_item(self, node: ast.Node, *, optional: bool) -> Type:
        found = self.check(node)
        if not optional:
            return found
        inner, was_optional = types.unwrap_optional(self.known.apply(found))
        if not was_optional and not found.is_dynamic:
            raise self.source.error(
                f"expected type 'optional_type({self.show(found)})' but found '{self.show(found)}'", node.at
            )
        return inner if was_optional else types.DYN

    def list_literal(self, node: ast.ListLiteral) -> Type:
        item: Type | None = None
        for at, element in enumerate(node.items):
            item = self.join(item, self.optional_item(element, optional=at in node.optional), element)
        return types.list_of(item if item is not None else self.new_parameter())

    def map_literal(self, node: ast.MapLiteral) -> Type:
        key: Type | None = None
        value: Type | None = None
        for key_node, value_node, optional in node.entries:
            key = self.join(key, self.check(key_node), key_node)
            value = self.join(value, self.optional_item(value_node, optional=optional), value_node)
        if key is None or value is None:
            return types.map_of(self.new_parameter(), self.new_parameter())
        return types.map_of(key, value)

    # --- macros ---------------------------------------------------------------------------------------------

    def variables(self, node: ast.Comprehension) -> dict[str, Type]:
        """The loop variables with the types that the range gives them."""
        range_type = self.known.apply(self.check(node.range))
        if range_type.kind == "list":
            one, two = (range_type.params[0],), (types.INT, range_type.params[0])
        elif range_type.kind == "map":
            one, two = (range_type.params[0],), (range_type.params[0], range_type.params[1])
        elif range_type.is_dynamic or range_type.kind == "param":
            if range_type.kind == "param":
                self.fits(types.DYN, range_type)
            one, two = (types.DYN,), (types.DYN, types.DYN)
        else:
            raise self.source.error(
                f"expression of type '{self.show(range_type)}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)",
                node.range.at,
            )
        return dict(zip(node.names, one if len(node.names) == 1 else two, strict=True))

    def comprehension(self, node: ast.Comprehension) -> Type:
        names = self.variables(node)
        if node.guard is not None:
            self.condition(node.guard, names, "_?_:_")
        match node.kind:
            case "all" | "exists":
                self.condition(node.body, names, "_&&_" if node.kind == "all" else "_||_")
                return types.BOOL
            case "exists_one":
                self.condition(node.body, names, "_?_:_")
                return types.BOOL
            case "filter":
                self.condition(node.body, names, "_?_:_")
                return types.list_of(names[node.names[0]])
            case "map" | "transformList":
                return types.list_of(self.check_in_scope(names, node.body))
            case "transformMap":
                return types.map_of(names[node.names[0]], self.check_in_scope(names, node.body))
            case _:
                return self.entries(node, names)

    def condition(self, node: ast.Node, names: dict[str, Type], function: str) -> None:
        found = self.check_in_scope(names, node)
        if not self.fits(found, types.BOOL):
            shown = f"bool, {self.show(found)}" if function != "_?_:_" else f"{self.show(found)}, …"
            raise self.source.error(
                f"found no matching overload for '{function}' applied to '({shown})'", node.at
            )

    def entries(self, node: ast.Comprehension, names: dict[str, Type]) -> Type:
        """transformMapEntry: its body must be a map."""
        found = self.known.apply(self.check_in_scope(names, node.body))
        wanted = types.map_of(self.new_parameter(), self.new_parameter())
        if not self.fits(found, wanted):
            raise self.source.error(
                f"found no matching overload for 'cel.@mapInsert' applied to '(map, {self.show(found)})'",
                node.body.at,
            )
        return self.known.apply(wanted)

    def optional_map(self, node: ast.OptionalMap) -> Type:
        target = self.check(node.target)
        inner = self.new_parameter()
        if not self.fits(target, types.optional_of(inner)):
            raise self.source.error(
                f"found no matching overload for 'hasValue' applied to '{self.show(target)}.()'", node.at
            )
        unwrapped = types.unwrap_optional(self.known.apply(target))
        value = unwrapped[0] if unwrapped[1] else types.DYN
        result = self.check_in_scope({node.name: value}, node.body)
        if not node.flat:
            return types.optional_of(result)
        if not self.fits(result, types.optional_of(self.new_parameter())):
            raise self.source.error(
                "found no matching overload for '_?_:_' applied to "
                f"'(bool, {self.show(result)}, optional_type(dyn))'",
                node.body.at,
            )
        return result if types.unwrap_optional(self.known.apply(result))[1] else types.optional_of(types.DYN)


def _parameters(overload: Overload) -> set[str]:
    found: set[str] = set()
    pending = [*overload.params, overload.result]
    while pending:
        type_ = pending.pop()
        if type_.kind == "param":
            found.add(type_.name)
        pending.extend(type_.params)
    return found


_CONSTANTS: Final = {
    "bool": types.BOOL,
    "int": types.INT,
    "Uint": types.UINT,
    "float": types.DOUBLE,
    "str": types.STRING,
    "bytes": types.BYTES,
    "NoneType": types.NULL,
}


def _type_of_constant(value: object) -> Type:
    return _CONSTANTS[type(value).__name__]
