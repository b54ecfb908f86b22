"""The syntax tree of a module -> one kernel, ready to execute."""

from __future__ import annotations

from dataclasses import replace

from kcheck import limits
from kcheck.ptx_frontend.blocks import basic_blocks, leaves, targets
from kcheck.ptx_frontend.calls import Call, copy
from kcheck.ptx_frontend.cursor import MAX_DEPTH
from kcheck.ptx_frontend.errors import KernelChoiceError, PtxError
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.renaming import Renaming
from kcheck.ptx_frontend.scopes import Declarations, Scope
from kcheck.ptx_frontend.source import Span
from kcheck.ptx_frontend.tree import (
    Block,
    Directive,
    Function,
    Guard,
    Instr,
    Label,
    Loc,
    Module,
    Operand,
    Reg,
    Registers,
    Sink,
    Statement,
    Sym,
    Target,
    Variable,
    Vec,
)

# Inlining doubles code with each level of calls: stop before it fills the memory.
MAX_CODE = 500_000


def lower(module: Module, name: str | None = None) -> Kernel:
    """The kernel `name` of a module (the only one if None), flattened as `Kernel` says.

    KernelChoiceError if there is no such kernel, or several and no name; PtxError for names that
    are not declared, for recursion, and for calls that don't fit the function they call.
    """
    entries = module.entries
    chosen = [entry for entry in entries if name in (None, entry.name)]
    if len(chosen) != 1:
        names = tuple(entry.name for entry in entries)
        raise KernelChoiceError(module.span.source.name, names, name)
    return _Lowering(module, chosen[0]).kernel()


class _Lowering:
    """The state of one `lower`: the code so far, and what is known of names in it."""

    def __init__(self, module: Module, entry: Function) -> None:
        self.module = module
        self.entry = entry
        self.functions = _functions(module)
        self.names = Renaming(self.functions)
        self.files = _files(module)
        self.declarations = Declarations()
        self.variables: dict[str, tuple[Variable, Scope]] = {}
        self.statics: dict[int, str] = {}  # id of a tree's variable -> unique name
        self.code: list[Instr] = []
        self.labels: list[int] = []  # number of a label -> index into code
        self.jumps: dict[int, tuple[int, ...]] = {}  # index of a branch -> numbers of labels
        self.calls = [entry.name]  # functions that the code at hand is in
        self.returns: list[int] = []  # for each but the entry, the label behind its call
        self.loc: Loc | None = None

    def kernel(self) -> Kernel:
        """The whole kernel."""
        entry = self.entry
        outermost = Scope(None, self.declarations)
        for param in entry.params:
            outermost.add_variable(param.name)
        self.root = Scope(outermost, self.declarations)
        for variable in self.module.variables:
            self._declare(variable, self.root)
        assert entry.body is not None
        self._block(entry.body, self.root)
        self._finish()
        return Kernel(
            name=entry.name,
            module=self.module,
            params=entry.params,
            registers=self.names.registers,
            variables=self._used_variables(),
            code=tuple(self.code),
            blocks=basic_blocks(self.code),
            tuning=dict(entry.tuning),
        )

    def _finish(self) -> None:
        """Branches get their targets; a body that falls off its end gets a `ret`."""
        code = self.code
        for at, numbers in self.jumps.items():
            instr = code[at]
            found: tuple[Operand, ...] = tuple(Target(self.labels[n]) for n in numbers)
            if instr.opcode[0] == "brx":
                found = (*instr.operands, Vec(found))
            code[at] = replace(instr, operands=found)
        end = len(code)
        if not code or not leaves(code[-1]) or any(end in targets(code[at]) for at in self.jumps):
            code.append(Instr(("ret",), (), None, self._end_span(), self.loc))

    def _end_span(self) -> Span:
        assert self.entry.body is not None
        span = self.entry.body.span
        return Span(span.source, span.end - 1, span.end)

    def _used_variables(self) -> dict[str, Variable]:
        """The variables that code or the initializer of a used one names, as declared."""
        used = self.names.used
        inits: dict[str, tuple[Operand, ...] | None] = {}
        pending = used & self.variables.keys()
        while pending:
            unique = pending.pop()
            variable, scope = self.variables[unique]
            init = variable.init and tuple(
                self.names.operand(item, scope, variable.span) for item in variable.init
            )
            inits[unique] = init
            pending |= (used & self.variables.keys()) - inits.keys()
        return {
            unique: replace(variable, name=unique, init=inits[unique])
            for unique, (variable, _) in self.variables.items()
            if unique in inits
        }

    # statements

    def _block(self, block: Block, parent: Scope) -> None:
        scope = Scope(parent, self.declarations)
        if scope.depth > 2 * MAX_DEPTH:
            raise PtxError(block.span, f"scopes and calls nest more than {2 * MAX_DEPTH} deep")
        self._collect_labels(block, scope)
        for statement in block.body:
            limits.check()
            if isinstance(statement, Instr):
                self._instr(statement, scope)
            else:
                self._other(statement, scope)

    def _collect_labels(self, block: Block, scope: Scope) -> None:
        tables: list[tuple[str, Directive]] = []
        for i, statement in enumerate(block.body):
            if not isinstance(statement, Label):
                continue
            if statement.name in scope.labels:
                raise PtxError(statement.span, f"label `{statement.name}` stands here twice")
            scope.labels[statement.name] = self._new_label()
            after = block.body[i + 1] if i + 1 < len(block.body) else None
            if isinstance(after, Directive) and after.name == "branchtargets":
                tables.append((statement.name, after))
        for name, directive in tables:
            scope.tables[name] = tuple(
                self._label(scope, label, directive.span) for label in directive.text.split(", ")
            )

    def _new_label(self) -> int:
        self.labels.append(-1)
        return len(self.labels) - 1

    def _other(self, statement: Statement, scope: Scope) -> None:
        match statement:
            case Label():
                self.labels[scope.labels[statement.name]] = len(self.code)
            case Block():
                self._block(statement, scope)
            case Registers():
                self._once(statement, scope)
                scope.add_register(statement.name, statement.type, statement.count)
            case Variable():
                self._once(statement, scope)
                self._declare(statement, scope)
            case Directive(name="loc"):
                number, line = statement.text.split(",")[0].split()[:2]
                file = self.files.get(number, f"file {number}")
                self.loc = Loc(file, int(line))
            case _:  # .pragma, .section, ...: nothing to execute
                pass

    def _once(self, declared: Registers | Variable, scope: Scope) -> None:
        if scope.declares(declared.name):
            raise PtxError(declared.span, f"`{declared.name}` is declared twice in this scope")

    def _declare(self, variable: Variable, scope: Scope) -> None:
        """A variable of memory; only `.local` and `.param` exist anew in each inlined call."""
        static = variable.space not in ("local", "param")
        if static and id(variable) in self.statics:
            scope.add_variable(variable.name, self.statics[id(variable)])
            return
        unique = scope.add_variable(variable.name)
        space = "local" if variable.space == "param" else variable.space
        self.variables[unique] = (replace(variable, space=space), scope)
        self.statics[id(variable)] = unique

    # instructions

    def _instr(self, instr: Instr, scope: Scope) -> None:
        word = instr.opcode[0]
        if word == "call":
            self._call(instr, scope)
        elif word == "ret" and self.returns:
            uniform = ("uni",) if "uni" in instr.opcode else ()
            bra = replace(instr, opcode=("bra", *uniform), operands=())
            self._jump(bra, scope, (self.returns[-1],))
        elif word == "bra" or word == "brx":
            self._branch(instr, scope)
        else:
            rename, span = self.names.operand, instr.span
            self._emit(instr, scope, tuple([rename(o, scope, span) for o in instr.operands]))

    def _emit(self, instr: Instr, scope: Scope, operands: tuple[Operand, ...]) -> None:
        """Append an instruction whose operands are renamed; its guard is not yet."""
        guard = instr.guard
        if guard is not None:
            guard = Guard(self.names.register(guard.reg, scope, instr.span), guard.negated)
        self._append(Instr(instr.opcode, operands, guard, instr.span))

    def _append(self, instr: Instr) -> None:
        if len(self.code) >= MAX_CODE:
            raise PtxError(instr.span, f"more than {MAX_CODE} instructions after inlining calls")
        self.code.append(Instr(instr.opcode, instr.operands, instr.guard, instr.span, self.loc))

    def _jump(
        self, instr: Instr, scope: Scope, labels: tuple[int, ...], *operands: Operand
    ) -> None:
        self.jumps[len(self.code)] = labels
        self._emit(instr, scope, operands)

    def _branch(self, instr: Instr, scope: Scope) -> None:
        span = instr.span
        *index, label = instr.operands or (None,)
        indexed = instr.opcode[0] == "brx"
        if not isinstance(label, Sym) or label.offset or len(index) != indexed:
            raise PtxError(span, "a branch goes to a label")
        if indexed:
            table = scope.table(label.name)
            if table is None:
                raise PtxError(span, f"`{label.name}` is no list of `.branchtargets`")
            self._jump(instr, scope, table, self.names.operand(index[0], scope, span))
        else:
            self._jump(instr, scope, (self._label(scope, label.name, span),))

    def _label(self, scope: Scope, name: str, span: Span) -> int:
        number = scope.label(name)
        if number is None:
            mend = "labels inside `{ }` are seen only there"
            raise PtxError(span, f"there is no label `{name}` here", mend)
        return number

    # calls

    def _call(self, instr: Instr, scope: Scope) -> None:
        call = Call.of(instr)
        name = call.function.name if isinstance(call.function, Sym) else ""
        function = self.functions.get(name)
        if function is None or function.body is None:
            self._stay(instr, scope)
            return
        if function.name in self.calls:  # recursion: refused when it is reached
            self._stay(instr, scope)
            return
        behind, skipped = self._new_label(), self._new_label()
        if instr.guard:
            guard = Guard(instr.guard.reg, not instr.guard.negated)
            self._jump(replace(instr, opcode=("bra",), guard=guard), scope, (skipped,))
        inner = Scope(self.root, self.declarations)
        returned: list[Instr] = []
        for formal, actual, result in call.bound(function):
            passed = self._pass(formal, actual, inner, scope, instr.span)
            if passed is None:
                continue
            here, there = passed
            if result:
                returned.append(copy(formal.type, there, here, instr))
            else:
                self._append(copy(formal.type, here, there, instr))
        loc = self.loc
        self.calls.append(function.name)
        self.returns.append(behind)
        self._block(function.body, inner)
        self.returns.pop()
        self.calls.pop()
        self.loc = loc
        self.labels[behind] = len(self.code)
        for instruction in returned:
            self._append(instruction)
        self.labels[skipped] = len(self.code)

    def _stay(self, instr: Instr, scope: Scope) -> None:
        """A call of an external function, or through a register."""
        rename, span = self.names.operand, instr.span
        operands = [
            # a prototype is a label
            o if isinstance(o, Sym) and scope.label(o.name) is not None else rename(o, scope, span)
            for o in instr.operands
        ]
        self._emit(instr, scope, tuple(operands))

    def _pass(
        self, formal: Variable, actual: Operand, inner: Scope, outer: Scope, span: Span
    ) -> tuple[Operand, Operand] | None:
        """Declare a parameter in `inner`: two operands between which a value is to be copied.

        None if nothing is to be copied: two `.param` variables become one, and `_` takes nothing.
        """
        there = self.names.operand(actual, outer, span)
        if isinstance(there, Sym):
            known = self.variables.get(there.name)
            if known is None or there.offset or known[0].nbytes != formal.nbytes:
                raise PtxError(span, f"`{there.name}` can't be passed as `{formal.name}`")
            if formal.space == "param":
                inner.add_variable(formal.name, there.name)
                return None
        here: Operand
        if formal.space == "reg":
            inner.add_register(formal.name, formal.type, None)
            here = Reg(formal.name)
        else:
            self._declare(formal, inner)
            here = Sym(formal.name)
        here = self.names.operand(here, inner, span)
        return None if isinstance(there, Sink) else (here, there)


def _functions(module: Module) -> dict[str, Function]:
    """Functions by name, definitions before declarations; aliases name what they stand for."""
    functions: dict[str, Function] = {}
    for function in module.functions:
        if function.body is not None or function.name not in functions:
            functions[function.name] = function
    for item in module.items:
        if isinstance(item, Directive) and item.name == "alias":
            alias, _, name = item.text.partition(", ")
            if name not in functions:
                raise PtxError(item.span, f"`{name}` is no function")
            functions[alias] = functions[name]
    return functions


def _files(module: Module) -> dict[str, str]:
    """`.file` numbers -> names; Triton declares them behind their use."""
    files: dict[str, str] = {}
    for item in module.items:
        if isinstance(item, Directive) and item.name == "file":
            number, _, rest = item.text.partition(" ")
            name, _, _ = rest.removeprefix('"').partition('"')
            files[number] = name
    return files
