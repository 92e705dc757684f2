"""Reads the pseudo-code by which AMD's manuals define instructions: gives the syntax tree of a text.

The texts come from the package tinygrad, which extracts them from AMD's machine-readable manuals. `amd_meaning`
evaluates the trees. Nodes are tuples whose first element is the kind:

    number kind bits value    name text    member of what    bits of high low    index of place
    call name arguments       cast kind bits of    unary sign of    binary sign left right    select condition a b
    join parts                a wider number, most significant first
    set target value          define name parameters body    return value    array name    break
    if cases otherwise        for name first last body
"""

import re
from functools import cache
from typing import Any

Node = tuple[Any, ...]

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<cast>\d+'[UIFB](?=\())
    | (?P<type>\d+'[UIFB])
    | (?P<sized>\d+'(?:0x[0-9a-fA-F]+|-?\d+(?:\.\d+)?)(?:U|LL|ULL)?)
    | (?P<float>\d+\.\d+F?)
    | (?P<int>(?:0x[0-9a-fA-F]+|\d+)(?:ULL|LL|U|L)?)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<sign>\*\*|<<|>>|<=|>=|==|!=|<>|&&|\|\||[-+*/|&^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
    )""",
    re.X,
)
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!=", "<>"), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"), ("**",),
)  # fmt: skip
_ENDS = ("endif", "elsif", "else", "endfor", ")", "")
_KINDS = {"U": "u", "I": "i", "F": "f", "B": "u"}


@cache
def parse(text: str) -> list[Node]:
    """The statements of a text.

    Raises:
        SyntaxError: It is in words, or in another notation.
    """
    parser = _Parser(text)
    found = parser.statements()
    if parser.token:
        raise SyntaxError(f"{parser.token!r} is not expected in: {text}")
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        place, text = 0, re.sub(r"//[^\n]*", "", text).rstrip()
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise SyntaxError(f"not pseudo-code: {text[place:place + 40]!r}")
            assert match.lastgroup is not None
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            place = match.end()
        self._place = 0

    @property
    def token(self) -> str:
        """The next token; "" at the end."""
        return self._tokens[self._place][1] if self._place < len(self._tokens) else ""

    def _take(self, wanted: str = "") -> tuple[str, str]:
        if self._place == len(self._tokens) or wanted and self.token != wanted:
            raise SyntaxError(f"{wanted!r} is expected, not {self.token!r}")
        self._place += 1
        return self._tokens[self._place - 1]

    def _try(self, wanted: str) -> bool:
        found = self.token == wanted
        self._place += found
        return found

    # -- statements -----------------------------------------------------------------------------------------
    def statements(self) -> list[Node]:
        """Statements up to a word that ends a block."""
        found: list[Node] = []
        while True:
            while self._try(";"):
                pass
            if self.token in _ENDS:
                return found
            found.extend(self._statement())

    def _statement(self) -> list[Node]:
        if self._try("if"):
            return [self._if()]
        if self._try("for"):
            name = self._take()[1]
            self._take("in")
            first = self._expression()
            self._take(":")
            last = self._expression()
            self._take("do")
            body = self.statements()
            self._take("endfor")
            return [("for", name, first, last, body)]
        if self._try("declare"):
            name = self._take()[1]
            self._take(":")
            while self.token not in (";", "["):  # the type, which assignments say again
                self._place += 1
            return [("array", name)] if self._array() else []
        if self._try("break"):
            return [("break",)]
        if self._try("return"):
            return [("return", self._expression())]
        return self._assignment()

    def _array(self) -> bool:
        found = self._try("[")
        while found and not self._try("]"):
            self._place += 1
        return found

    def _if(self) -> Node:
        cases = []
        otherwise: list[Node] = []
        while True:
            condition = self._expression()
            self._take("then")
            cases.append((condition, self.statements()))
            if self._try("elsif"):
                continue
            if self._try("else"):
                otherwise = self.statements()
            self._take("endif")
            return ("if", cases, otherwise)

    def _assignment(self) -> list[Node]:
        targets = [self._postfix()]
        if targets[0][0] == "call":  # such as nop(): of no effect on values
            return []
        sign = self._take()[1]
        if sign not in ("=", "+=", "-=", "*=", "/=", "|=", "&=", "^="):
            raise SyntaxError(f"{sign!r} is not expected")
        if self._try("lambda"):
            return [self._lambda(targets[0][1])]
        value = self._expression()
        while self._try("="):
            targets.append(value)
            value = self._expression()
        if sign != "=":
            value = ("binary", sign[0], targets[0], value)
        return [("set", target, value) for target in reversed(targets)]

    def _lambda(self, name: str) -> Node:
        self._take("(")
        parameters = [self._take()[1]]
        while self._try(","):
            parameters.append(self._take()[1])
        self._take(")")
        self._take("(")
        if self.token in ("declare", "for", "if"):
            body = self.statements()
        else:
            body = [("return", self._expression())]
        self._take(")")
        return ("define", name, parameters, body)

    # -- expressions ----------------------------------------------------------------------------------------
    def _expression(self) -> Node:
        condition = self._level(0)
        if not self._try("?"):
            return condition
        first = self._expression()
        self._take(":")
        return ("select", condition, first, self._expression())

    def _level(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        found = self._level(level + 1)
        while self.token in _LEVELS[level]:
            sign = self._take()[1]
            found = ("binary", "!=" if sign == "<>" else sign, found, self._level(level + 1))
        return found

    def _unary(self) -> Node:
        if self.token in ("-", "+", "!", "~"):
            return ("unary", self._take()[1], self._unary())
        return self._postfix()

    def _postfix(self) -> Node:
        found = self._primary()
        while True:
            if self._try("."):
                found = ("member", found, self._take()[1])
            elif self._try("["):
                first = self._expression()
                if self._try(":"):
                    found = ("bits", found, first, self._expression())
                else:
                    found = ("index", found, first)
                self._take("]")
            else:
                return found

    def _primary(self) -> Node:
        kind, text = self._take()
        if kind == "cast":
            bits, _, letter = text.partition("'")
            self._take("(")
            of = self._expression()
            self._take(")")
            return ("cast", _KINDS[letter], int(bits), of)
        if kind == "sized":
            bits, _, value = text.partition("'")
            if "." in value:
                return ("number", "f", int(bits), float(value))
            return ("number", "u" if value.endswith("U") else "i", int(bits), int(value.rstrip("UL"), 0))
        if kind == "float":
            return ("number", "f", 32 if text.endswith("F") else 64, float(text.rstrip("F")))
        if kind == "int":
            number = int(text.rstrip("UL"), 0)
            wide = "LL" in text or number >> 32
            return ("number", "u" if text.endswith(("U", "ULL")) else "i", 64 if wide else 32, number)
        if text == "(":
            found = self._expression()
            self._take(")")
            return found
        if text == "{":
            parts = [self._expression()]
            while self._try(","):
                parts.append(self._expression())
            self._take("}")
            return ("join", parts)
        if kind == "name" and self._try("("):
            arguments = [] if self.token == ")" else [self._expression()]
            while self._try(","):
                arguments.append(self._expression())
            self._take(")")
            return ("call", text, arguments)
        if kind == "name":
            return ("name", text)
        raise SyntaxError(f"{text!r} is not expected")
