"""Who uses what, across modules."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping

from taskforge.languages.python.project.names import ModuleNames
from taskforge.languages.python.project.parts import Module, Node, Origin, Ref

__all__ = ["Graph"]

#: What a name leads to: a definition, a module, the folder of a namespace package.
_Found = Node | Module | str
_DEPTH = 20


class Graph:
    """Names resolved through imports, re-exports, star imports, attributes of modules and of classes."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self.modules = modules
        self.names = ModuleNames(modules)
        self.uses: dict[Node, list[Ref]] = defaultdict(list)
        """Resolved uses; an import on the way counts as used too."""
        self.module_uses: dict[Module, list[Ref]] = defaultdict(list)
        """Of a module as a value, or by an import statement."""
        self.by_name: dict[str, list[Ref]] = defaultdict(list)
        """Attributes of unknown things, and parameters."""
        self.strings: dict[str, list[Ref]] = defaultdict(list)
        """By each word of their text."""
        self.members: dict[str, list[Node]] = defaultdict(list)
        """Names in classes."""
        self.targets: dict[Ref, tuple[Node, ...]] = {}
        """What a use passes, its end last."""
        self.partial: set[Ref] = set()
        """Uses whose last names could not be told: what they name is not what is called."""
        self.import_calls = [
            ref
            for module in modules.values()
            if module.product
            for ref in module.refs
            if ref.when == "import" and ref.role in {"call", "factory", "decorator", "base"}
        ]
        for module in modules.values():
            for node in module.every():
                if node.scope is not None:
                    self.members[node.name].append(node)
        self.starred = {
            found
            for module in modules.values()
            for _start, _end, origin in module.stars
            if isinstance(found := self.names.find(origin.level, origin.module, module), Module)
        }
        """Modules of which somebody imports everything."""
        for module in modules.values():
            for ref in module.refs:
                self._place(ref)

    def refs_within(self, module: Module, start: int, end: int) -> Iterator[Ref]:
        """The uses that stand in a span of bytes."""
        refs = module.refs
        for position in range(bisect_left(refs, start, key=lambda it: it.at), len(refs)):
            if refs[position].at >= end:
                return
            yield refs[position]

    def bases(self, node: Node) -> Iterator[Node]:
        """The classes of this project that a class derives from, itself first."""
        seen = [node]
        for it in seen:
            yield it
            for names in it.bases:
                found = self.base(it, names)
                if found is not None and found not in seen:
                    seen.append(found)

    def _place(self, ref: Ref) -> None:
        if ref.doubtful:
            if ref.role == "string":
                for word in set(ref.names[0].replace(":", ".").replace("[", ".").replace(" ", ".").split(".")):
                    self.strings[word.strip(",]|")].append(ref)
                return
            self.by_name[ref.names[0]].append(ref)
            found = self.member(ref.scope, ref.names[0]) if ref.scope is not None else None
            if found is not None:
                self._use(found, ref)
            return
        rest = self._follow(ref)
        for name in rest:
            self.by_name[name].append(ref)
            self.partial.add(ref)

    def _use(self, node: Node, ref: Ref) -> None:
        self.uses[node].append(ref)
        self.targets[ref] = (*self.targets.get(ref, ()), node)

    def _follow(self, ref: Ref) -> tuple[str, ...]:
        """Record what a dotted name passes; what is left of it could not be told."""
        found: _Found | None
        if ref.origin is not None:
            found = self._import(ref.origin, ref.module, ref)
        elif ref.scope is not None:
            found = ref.scope.members.get(ref.names[0])
            if isinstance(found, Node):
                self._use(found, ref)
        else:
            found = self.lookup(ref.module, ref.names[0], ref)
        rest = ref.names[1:]
        for position, name in enumerate(rest):
            found = self._attribute(found, name, ref)
            if found is None:
                return rest[position:]
        if isinstance(found, Node):
            found = self.final(found, ref)
        if isinstance(found, Module):
            self.module_uses[found].append(ref)
        return ()

    def _attribute(self, found: _Found | None, name: str, ref: Ref) -> _Found | None:
        if isinstance(found, Node):
            found = self.final(found, ref)
        if isinstance(found, Node):
            member = self.member(found, name)
            if member is not None:
                self._use(member, ref)
            return member
        if isinstance(found, Module):
            return self.lookup(found, name, ref) or self.names.inside(found, name)
        return self.names.inside(found, name) if found is not None else None

    def member(self, node: Node | None, name: str, depth: int = 0) -> Node | None:
        """A name of a class or of one of its bases in this project."""
        if node is None or depth > _DEPTH:
            return None
        if name in node.members:
            return node.members[name]
        for base in node.bases:
            found = self.base(node, base)
            member = self.member(found, name, depth + 1) if found is not None and found is not node else None
            if member is not None:
                return member
        return None

    def base(self, node: Node, names: tuple[str, ...]) -> Node | None:
        """The class that a base of ``node`` names, when it is of this project."""
        if not names:
            return None
        found: _Found | None = None
        if node.scope is not None:
            found = node.scope.members.get(names[0])
        found = found or self.lookup(node.module, names[0], None)
        for name in names[1:]:
            if isinstance(found, Node):
                found = self.final(found, None)
            if isinstance(found, Node):
                found = found.members.get(name)
            elif found is not None:
                found = (self.lookup(found, name, None) if isinstance(found, Module) else None) or self.names.inside(
                    found, name
                )
        if isinstance(found, Node):
            found = self.final(found, None)
        return found if isinstance(found, Node) and found.is_class else None

    def lookup(self, module: Module, name: str, ref: Ref | None, depth: int = 0) -> Node | None:
        """A name of a module's scope, through its star imports; ``ref`` is recorded as a use of what is passed."""
        node = module.nodes.get(name)
        if node is not None:
            if ref is not None:
                self._use(node, ref)
            return node
        if depth > _DEPTH:
            return None
        for _start, _end, origin in module.stars:
            source = self.names.find(origin.level, origin.module, module)
            if isinstance(source, Module) and source is not module and self.is_exported(source, name):
                found = self.lookup(source, name, ref, depth + 1)
                if found is not None:
                    return found
        return None

    def is_exported(self, module: Module, name: str) -> bool:
        """Whether a star import takes it."""
        if module.has_all:
            return any(it == name for _at, it, _statement in module.exports) or not module.exports
        return not name.startswith("_")

    def final(self, node: Node, ref: Ref | None, depth: int = 0) -> _Found:
        """What an imported name means in the end; other names mean themselves."""
        if depth > _DEPTH:
            return node
        for binding in node.bindings:
            if binding.origin is not None:
                found = self._import(binding.origin, node.module, ref, skip=node)
                if isinstance(found, Node):
                    return self.final(found, ref, depth + 1)
                if found is not None:
                    return found
        return node

    def _import(self, origin: Origin, importer: Module, ref: Ref | None, skip: Node | None = None) -> _Found | None:
        source = self.names.find(origin.level, origin.module, importer)
        if source is None or origin.name is None:
            return source
        if isinstance(source, Module):
            found = self.lookup(source, origin.name, None)
            if found is not None and found is not skip:
                if ref is not None:
                    self._use(found, ref)
                return found
        return self.names.inside(source, origin.name)
