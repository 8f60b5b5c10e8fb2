"""Static analysis of which configuration fields the source of holdfast reads.

An attribute counts as read if it is taken from an expression of the struct's type: a parameter, field or result
annotated with it, a section of it, an entry of a table, or a name assigned from any of these. Types are inferred from
annotations of functions, attributes and calls; values without annotations are not followed.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args, get_origin

from msgspec import Struct

from holdfast.config.options import all_options, alternatives


class ConfigType(NamedTuple):
    """A possible type of an expression: a struct, or a table or list of them."""

    struct: str
    kind: Literal["one", "many", "items"] = "one"


Types = frozenset[ConfigType]
Env = dict[str, Types]
Fields = Mapping[str, Mapping[str, Types]]
"""By struct and field: the configuration types of the field."""
NOTHING: Types = frozenset()
_MANY = frozenset({"dict", "Mapping", "tuple", "list", "Sequence", "Iterable", "Iterator", "Collection"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)
_BINDINGS = (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.AsyncFor, ast.comprehension, ast.withitem)
_THROUGH = frozenset({"replace", "sorted", "tuple", "list", "reversed"})


def fields_of(shapes: Iterable[type[Struct]]) -> dict[str, dict[str, Types]]:
    return {shape.__name__: {name: _types_of(o.kind) for name, o in all_options(shape).items()} for shape in shapes}


def _types_of(kind: Any) -> Types:
    found: set[ConfigType] = set()
    for option in alternatives(kind):
        inner = [*get_args(option), None, None]
        entry = inner[1] if get_origin(option) is dict else inner[0]
        if isinstance(option, type) and issubclass(option, Struct):
            found.add(ConfigType(option.__name__))
        elif isinstance(entry, type) and issubclass(entry, Struct):
            found.add(ConfigType(entry.__name__, "many"))
    return frozenset(found)


def unread(fields: Fields, modules: Iterable[ast.Module]) -> list[str]:
    """Return the fields that no module reads, as `Struct.field`."""
    read = _Program(fields, list(modules)).read
    return sorted(f"{struct}.{name}" for struct, own in fields.items() for name in own if (struct, name) not in read)


class _Program:
    def __init__(self, fields: Fields, modules: list[ast.Module]) -> None:
        self.fields = fields
        self.read: set[tuple[str, str]] = set()
        self._attributes: defaultdict[str, Types] = defaultdict(frozenset)
        self._results: defaultdict[str, Types] = defaultdict(frozenset)
        for module in modules:
            for node in ast.walk(module):
                self._declare(node)
        self._names = {name for own in fields.values() for name in own}
        self._nodes: dict[ast.AST, list[ast.AST]] = {}
        seen = -1
        # Repeat until nothing changes: the type of `self.x = …` may depend on an attribute of a later module.
        while seen != (seen := sum(map(len, self._attributes.values()))):
            for module in modules:
                self._scope(module, {}, {})

    def _declare(self, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._results[node.name] |= self._annotated(node.returns)
            if any(isinstance(mark, ast.Name) and mark.id.endswith("property") for mark in node.decorator_list):
                self._attributes[node.name] |= self._annotated(node.returns)
        elif isinstance(node, ast.ClassDef):
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    self._attributes[item.target.id] |= self._annotated(item.annotation)

    def _annotated(self, node: ast.expr | None) -> Types:
        match node:
            case ast.Name(id=name) if name in self.fields:
                return frozenset({ConfigType(name)})
            case ast.Attribute(attr=name) if name in self.fields:
                return frozenset({ConfigType(name)})
            case ast.Constant(value=str(text)):
                return self._annotated(ast.parse(text, mode="eval").body)
            case ast.BinOp(left=left, right=right):
                return self._annotated(left) | self._annotated(right)
            case ast.Subscript(value=ast.Name(id=name), slice=inner) if name in _MANY:
                parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                return frozenset(ConfigType(found.struct, "many") for part in parts for found in self._annotated(part))
            case _:
                return NOTHING

    def _scope(self, scope: ast.AST, outer: Env, constants: dict[str, ast.expr]) -> None:
        """Analyse a module, class or function: first bind all names, wherever they are assigned, then find reads."""
        env = dict(outer)
        if isinstance(scope, _FUNCTIONS):
            given = scope.args
            for parameter in (*given.posonlyargs, *given.args, *given.kwonlyargs):
                env[parameter.arg] = self._annotated(parameter.annotation)
        if scope not in self._nodes:
            self._nodes[scope] = [node for node in _own_nodes(scope) if self._matters(node)]
        nodes = self._nodes[scope]
        for _ in range(2):
            for node in nodes:
                self._bind(node, env)
        if isinstance(scope, ast.Module):
            constants = dict(_constants(scope))
        for node in nodes:
            if isinstance(node, _SCOPES):
                self._scope(node, env, constants)
            elif isinstance(node, ast.Attribute):
                self.read |= {
                    (found.struct, node.attr) for found in self._infer(node.value, env) if found.kind == "one"
                }
            elif isinstance(node, ast.Call):
                names = _texts(node.args[1], nodes, constants)
                structs = [found.struct for found in self._infer(node.args[0], env) if found.kind == "one"]
                self.read |= {(struct, name) for struct in structs for name in names & self.fields[struct].keys()}

    def _matters(self, node: ast.AST) -> bool:
        match node:
            case ast.Attribute(attr=name, ctx=ast.Load()):
                return name in self._names
            case ast.Call(func=ast.Name(id=name)):
                return name == "getattr"
            case _:
                return isinstance(node, _BINDINGS + _SCOPES)

    def _bind(self, node: ast.AST, env: Env) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value, env)
            case ast.AnnAssign(target=target, annotation=annotation):
                self._put(target, self._annotated(annotation), env)
            case ast.NamedExpr(target=target, value=value):
                self._put(target, self._infer(value, env), env)
            case ast.For(target=ast.Tuple(elts=targets), iter=ast.Call(func=ast.Name(id="zip"), args=values)):
                for target, value in zip(targets, values, strict=False):
                    self._put(target, _entries(self._infer(value, env)), env)
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                self._put(target, _entries(self._infer(value, env)), env)
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                self._put(target, self._infer(value, env), env)
            case _:
                pass

    def _assign(self, target: ast.expr, value: ast.expr, env: Env) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, given in zip(target.elts, value.elts, strict=True):
                self._assign(one, given, env)
        else:
            self._put(target, self._infer(value, env), env)

    def _put(self, target: ast.expr, types: Types, env: Env) -> None:
        match target:
            case ast.Name(id=name):
                env[name] = env.get(name, NOTHING) | types
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                self._attributes[name] |= types
            case ast.Tuple(elts=[_, *_, last]):
                self._put(last, types, env)
            case _:
                pass

    def _infer(self, node: ast.expr, env: Env) -> Types:
        match node:
            case ast.Name(id=name):
                return env.get(name, NOTHING)
            case ast.Attribute(value=value, attr=name):
                owners = self._infer(value, env)
                known = [self.fields[found.struct].get(name, NOTHING) for found in owners if found.kind == "one"]
                return NOTHING.union(*known) if owners else self._attributes.get(name, NOTHING)
            case ast.Subscript(value=value):
                return _entries(self._infer(value, env))
            case ast.BoolOp(values=values):
                return NOTHING.union(*(self._infer(value, env) for value in values))
            case ast.IfExp(body=body, orelse=orelse):
                return self._infer(body, env) | self._infer(orelse, env)
            case ast.NamedExpr(value=value) | ast.Await(value=value) | ast.Starred(value=value):
                return self._infer(value, env)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return frozenset(found._replace(kind="many") for item in items for found in self._infer(item, env))
            case ast.Call(func=func, args=args):
                return self._result(func, args, env)
            case _:
                return NOTHING

    def _result(self, func: ast.expr, args: list[ast.expr], env: Env) -> Types:
        name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        if isinstance(func, ast.Attribute) and (owners := self._infer(func.value, env)):
            table = frozenset(found for found in owners if found.kind == "many")
            if name == "items":
                return frozenset(found._replace(kind="items") for found in table)
            return _entries(table) if name == "get" else table if name == "values" else NOTHING
        if name == "cast":
            return self._annotated(args[0])
        if name in _THROUGH and args:
            return self._infer(args[0], env)
        if name == "enumerate":
            return frozenset(found._replace(kind="items") for found in self._infer(args[0], env))
        return frozenset({ConfigType(name)}) if name in self.fields else self._results.get(name, NOTHING)


def _entries(types: Types) -> Types:
    return frozenset(item._replace(kind="one") for item in types if item.kind != "one")


def _constants(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case _:
                pass


def _texts(name: ast.expr, nodes: list[ast.AST], constants: Mapping[str, ast.expr]) -> set[str]:
    """Return the possible second arguments of a `getattr`: a constant, or the items of the enclosing loop."""
    if not isinstance(name, ast.Name):
        sources: list[ast.AST] = [name]
    else:
        loops = [node for node in nodes if isinstance(node, ast.For | ast.comprehension)]
        sources = [loop.iter for loop in loops if name.id in _names_in(loop.target)]
        mentioned = {known for source in sources for known in _names_in(source)}
        sources += [constants[known] for known in mentioned & constants.keys()]
    inner = (node for source in sources for node in ast.walk(source))
    return {node.value for node in inner if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def _names_in(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _own_nodes(scope: ast.AST) -> list[ast.AST]:
    """Return the nodes of a scope, without those of nested scopes."""
    found: list[ast.AST] = []
    waiting = list(ast.iter_child_nodes(scope))[::-1]
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, _SCOPES):
            waiting += reversed(list(ast.iter_child_nodes(node)))
    return found
