"""From tokens to the expression tree, macros already expanded."""

from __future__ import annotations

from typing import Final

from portal.dra.cel import ast
from portal.dra.cel.errors import CelCompileError
from portal.dra.cel.syntax import RESERVED, Source, Token, tokenize
from portal.dra.cel.values import MAX_INT, MAX_UINT, Uint

MAX_DEPTH: Final = 250
"""How deep brackets may nest, and how many operators and members may build on each other."""

_BINARY: Final = {
    "<": ("relation", "_<_"),
    "<=": ("relation", "_<=_"),
    ">": ("relation", "_>_"),
    ">=": ("relation", "_>=_"),
    "==": ("relation", "_==_"),
    "!=": ("relation", "_!=_"),
    "in": ("relation", "@in"),
    "+": ("sum", "_+_"),
    "-": ("sum", "_-_"),
    "*": ("product", "_*_"),
    "/": ("product", "_/_"),
    "%": ("product", "_%_"),
}
_KEYWORDS: Final[dict[str, object]] = {"true": True, "false": False, "null": None}
_ONE_VARIABLE: Final = {
    "all": "all",
    "exists": "exists",
    "exists_one": "exists_one",
    "existsOne": "exists_one",
    "filter": "filter",
}
_TWO_VARIABLES: Final = {
    "all": "all",
    "exists": "exists",
    "existsOne": "exists_one",
    "exists_one": "exists_one",
}
_TRANSFORMS: Final = frozenset({"transformList", "transformMap", "transformMapEntry"})
_INPUT_OF_SORT: Final = "@__sortBy_input__"


def parse(source: Source) -> ast.Node:
    """The tree of the whole text; raises CelCompileError."""
    return _Parser(source).whole()


class _Parser:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = tokenize(source)
        self.position = 0
        self.depth = 0

    # --- tokens ---------------------------------------------------------------------------------------------

    @property
    def current(self) -> Token:
        return self.tokens[self.position]

    def take(self, kind: str) -> Token | None:
        """The current token if it is of that kind; moves on."""
        token = self.tokens[self.position]
        if token.kind != kind:
            return None
        self.position += 1
        return token

    def expect(self, kind: str, after: str) -> Token:
        token = self.take(kind)
        if token is None:
            raise self.unexpected(f"'{kind}' {after}" if kind != "ident" else f"a name {after}")
        return token

    def unexpected(self, expected: str) -> Exception:
        token = self.current
        found = "the expression ends" if token.kind == "end" else f"found '{token.text}'"
        return self.source.error(f"Syntax error: expected {expected}, but {found}", token.at)

    # --- operators ------------------------------------------------------------------------------------------

    def whole(self) -> ast.Node:
        if self.current.kind == "end":
            raise self.unexpected("an expression")
        node = self.expression()
        if self.current.kind != "end":
            raise self.unexpected("an operator or the end")
        _check_chains(node)
        return node

    def expression(self) -> ast.Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.source.error(f"expression recursion limit exceeded: {MAX_DEPTH}", self.current.at)
        node = self.logical("||", "_||_")
        question = self.take("?")
        if question:
            yes = self.logical("||", "_||_")
            self.expect(":", "and the other value of the condition")
            no = self.expression()
            node = ast.Call(question.at, "_?_:_", None, [node, yes, no])
        self.depth -= 1
        return node

    def logical(self, operator: str, function: str) -> ast.Node:
        node = self.logical("&&", "_&&_") if operator == "||" else self.relation()
        if self.current.kind != operator:
            return node
        terms, at = [node], self.current.at
        while self.take(operator):
            terms.append(self.logical("&&", "_&&_") if operator == "||" else self.relation())
        return ast.Call(at, function, None, terms)

    def relation(self) -> ast.Node:
        return self.chain("relation")

    def chain(self, level: str) -> ast.Node:
        """A left-associative chain of relations, sums or products."""
        below = {"relation": "sum", "sum": "product", "product": ""}[level]
        node = self.chain(below) if below else self.unary()
        while True:
            token = self.current
            name = token.text if token.kind == "ident" else token.kind
            if _BINARY.get(name, ("", ""))[0] != level:
                return node
            self.position += 1
            right = self.chain(below) if below else self.unary()
            node = ast.Call(token.at, _BINARY[name][1], None, [node, right])

    def unary(self) -> ast.Node:
        token = self.current
        if token.kind not in ("!", "-"):
            return self.member()
        count = 0
        while self.take(token.kind):
            count += 1
        if token.kind == "!":
            node = self.member()
            return ast.Call(token.at, "!_", None, [node]) if count % 2 else node
        # The minus next to a number belongs to it, or else -9223372036854775808 could not be written.
        following = self.current
        if following.kind == "number" or (following.kind == "const" and isinstance(following.value, float)):
            count -= 1
            node = self.member(negative=True)
        else:
            node = self.member()
        return ast.Call(token.at, "-_", None, [node]) if count % 2 else node

    # --- members --------------------------------------------------------------------------------------------

    def member(self, *, negative: bool = False) -> ast.Node:
        node = self.primary(negative=negative)
        while True:
            token = self.current
            if token.kind == ".":
                self.position += 1
                node = self.after_dot(node, token)
            elif token.kind == "[":
                self.position += 1
                optional = self.take("?") is not None
                index = self.expression()
                self.expect("]", "to close the index")
                node = ast.Call(token.at, "_[?_]" if optional else "_[_]", None, [node, index])
            else:
                return node

    def after_dot(self, node: ast.Node, dot: Token) -> ast.Node:
        optional = self.take("?") is not None
        name = self.expect("ident", "after the dot")
        if name.text in _KEYWORDS or name.text == "in":
            self.position -= 1
            raise self.unexpected("a name after the dot")
        if not optional:
            opening = self.take("(")
            if opening:
                return self.member_call(node, name, opening)
            if self.current.kind == "{":
                return self.message(node)
        return ast.Select(dot.at, node, name.text, optional=optional)

    def message(self, node: ast.Node) -> ast.Node:
        """Selectors know no message types: building one is an error, whatever its fields."""
        name = qualified_name(node) or "this"
        raise self.source.error(f"undeclared reference to '{name}' (in container '')", self.current.at)

    def primary(self, *, negative: bool) -> ast.Node:  # noqa: PLR0911 (one per kind of token)
        token = self.current
        match token.kind:
            case "number":
                self.position += 1
                return self.number(token, negative=negative)
            case "const":
                self.position += 1
                value = -token.value if negative and isinstance(token.value, float) else token.value
                if isinstance(value, float) and value in (float("inf"), float("-inf")):
                    raise self.source.error("invalid double literal", token.at)
                return ast.Const(token.at, value)
            case "(":
                self.position += 1
                node = self.expression()
                self.expect(")", "to close the parenthesis")
                return node
            case "[":
                self.position += 1
                return self.list_literal(token)
            case "{":
                self.position += 1
                return self.map_literal(token)
            case ".":
                self.position += 1
                name = self.expect("ident", "after the dot")
                return self.identifier(name, leading_dot=True)
            case "ident":
                self.position += 1
                return self.identifier(token, leading_dot=False)
            case _:
                raise self.unexpected("a value")

    def number(self, token: Token, *, negative: bool) -> ast.Const:
        value = token.value
        if isinstance(value, Uint):
            if value > MAX_UINT or negative:
                raise self.source.error("invalid uint literal", token.at)
            return ast.Const(token.at, value)
        if not isinstance(value, int) or value > MAX_INT + (1 if negative else 0):
            raise self.source.error("invalid int literal", token.at)
        return ast.Const(token.at, -value if negative else value)

    def identifier(self, token: Token, *, leading_dot: bool) -> ast.Node:
        name = token.text
        if not leading_dot and name in _KEYWORDS:
            return ast.Const(token.at, _KEYWORDS[name])
        if name in _KEYWORDS or name == "in":
            self.position -= 1
            raise self.unexpected("a value")
        if name in RESERVED:
            raise self.source.error(f"reserved identifier: {name}", token.at)
        opening = self.take("(")
        if opening:
            args = self.arguments(")")
            if name == "has" and len(args) == 1 and not leading_dot:
                return self.has(args[0])
            return ast.Call(opening.at, name, None, args)
        node = ast.Ident(token.at, name)
        return self.message(node) if self.current.kind == "{" else node

    # --- aggregates -----------------------------------------------------------------------------------------

    def arguments(self, closing: str) -> list[ast.Node]:
        args: list[ast.Node] = []
        if self.take(closing):
            return args
        while True:
            args.append(self.expression())
            if self.take(closing):
                return args
            self.expect(",", f"or '{closing}' after the argument")

    def list_literal(self, opening: Token) -> ast.Node:
        items: list[ast.Node] = []
        optional: set[int] = set()
        while not self.take("]"):
            if items:
                self.expect(",", "or ']' after the element")
                if self.take("]"):
                    break
            elif self.current.kind == "," and self.tokens[self.position + 1].kind == "]":
                self.position += 2
                break
            if self.take("?"):
                optional.add(len(items))
            items.append(self.expression())
        return ast.ListLiteral(opening.at, items, frozenset(optional))

    def map_literal(self, opening: Token) -> ast.Node:
        entries: list[tuple[ast.Node, ast.Node, bool]] = []
        while not self.take("}"):
            if entries:
                self.expect(",", "or '}' after the entry")
                if self.take("}"):
                    break
            elif self.current.kind == "," and self.tokens[self.position + 1].kind == "}":
                self.position += 2
                break
            optional = self.take("?") is not None
            key = self.expression()
            self.expect(":", "between key and value")
            entries.append((key, self.expression(), optional))
        return ast.MapLiteral(opening.at, entries)

    # --- macros ---------------------------------------------------------------------------------------------

    def has(self, argument: ast.Node) -> ast.Node:
        if isinstance(argument, ast.Select) and not argument.optional and not argument.test:
            return ast.Select(argument.at, argument.operand, argument.name, test=True)
        raise self.source.error("invalid argument to has() macro", argument.at)

    def name_of(self, node: ast.Node, message: str = "argument must be a simple name") -> str:
        if not isinstance(node, ast.Ident):
            raise self.source.error(message, node.at)
        return node.name

    def member_call(self, target: ast.Node, name: Token, opening: Token) -> ast.Node:
        args = self.arguments(")")
        expanded = self.macro(target, name.text, args, opening.at)
        return expanded or ast.Call(opening.at, name.text, target, args)

    def macro(self, target: ast.Node, name: str, args: list[ast.Node], at: int) -> ast.Node | None:
        """What a macro stands for, or None for an ordinary call."""
        count = len(args)
        if name in _ONE_VARIABLE and count == 2:
            kind, names, guard = _ONE_VARIABLE[name], args[:1], None
        elif name == "map" and count in (2, 3):
            kind, names, guard = "map", args[:1], args[1] if count == 3 else None
        elif name in _TWO_VARIABLES and count == 3:
            kind, names, guard = _TWO_VARIABLES[name], args[:2], None
        elif name in _TRANSFORMS and count in (3, 4):
            kind, names, guard = name, args[:2], args[2] if count == 4 else None
        else:
            return self.other_macro(target, name, args, at)
        variables = tuple(self.name_of(arg) for arg in names)
        if len(set(variables)) < len(variables):
            raise self.source.error(f"duplicate variable name: {variables[0]}", names[1].at)
        return ast.Comprehension(at, kind, target, variables, guard, args[-1])

    def other_macro(self, target: ast.Node, name: str, args: list[ast.Node], at: int) -> ast.Node | None:
        count = len(args)
        if name == "bind" and count == 3 and isinstance(target, ast.Ident) and target.name == "cel":
            variable = self.name_of(args[0], "cel.bind() variable names must be simple identifiers")
            return ast.Bind(at, variable, args[1], args[2])
        if name in ("optMap", "optFlatMap") and count == 2:
            variable = self.name_of(args[0], f"{name}() variable name must be a simple identifier")
            return ast.OptionalMap(at, target, variable, args[1], flat=name == "optFlatMap")
        if name == "sortBy" and count == 2:
            variable = self.name_of(args[0], "sortBy can only be applied with a simple identifier")
            keys = ast.Comprehension(at, "map", ast.Ident(at, _INPUT_OF_SORT), (variable,), None, args[1])
            body = ast.Call(at, "@sortByAssociatedKeys", ast.Ident(at, _INPUT_OF_SORT), [keys])
            return ast.Bind(at, _INPUT_OF_SORT, target, body)
        return None


_CHAINED: Final = frozenset({"_?_:_", "_[_]", "_[?_]", *(function for _, function in _BINARY.values())})


def _check_chains(root: ast.Node) -> None:
    """Operators and members build on each other: `a + b + c` and `a.b.c` nest as much as brackets do."""
    pending = [(root, 0)]
    while pending:
        node, depth = pending.pop()
        match node:
            case ast.Call():
                depth += node.target is not None or node.function in _CHAINED
            case ast.Select() | ast.Comprehension() | ast.Bind() | ast.OptionalMap():
                depth += 1
        if depth > MAX_DEPTH:
            raise CelCompileError("max recursion depth exceeded")
        pending.extend((child, depth) for child in ast.children(node))


def qualified_name(node: ast.Node) -> str | None:
    """`a.b.c` as text where the node is such a chain of names."""
    parts: list[str] = []
    while isinstance(node, ast.Select) and not node.test and not node.optional:
        parts.append(node.name)
        node = node.operand
    if not isinstance(node, ast.Ident):
        return None
    return ".".join([node.name, *reversed(parts)])
