"""The blocks of the elaborated card: every module, with the parameters that it is really instantiated with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyslang import driver
from pyslang.ast import SymbolKind

import filelist

TOP = "hca_core"
LISTS = ("hw/filelists/hca_core.f",)
# The soft core is beside the card: whoever names blocks of it gets those.
SOC_TOP = "hca_fw_soc"
SOC_LISTS = ("hw/filelists/pkg.f", "hw/filelists/lib.f", ".tools/ibex/ibex.f", "hw/filelists/soc.f")
SOC_NAMES = ("hca_fw_", "ibex_")
# The card of the figures: one port; eight VLs are what hca_link_pkg has by itself.
DEFINES = ("SYNTHESIS", "HCA_NUM_PORTS=1")
# RC, UC, UD and management alone (hca_features_pkg), for four functions, with small pools: what a card has at the
# least.
LEAST = (*DEFINES, "HCA_FEATURES=0", "HCA_NUM_FUNCS=4", "HCA_SMALL_POOLS")
# Nothing but instances and a few gates: their children are the blocks that the card's figures are summed over.
WIRING = frozenset({"hca_core", "hca_ports"})
# Small cells with dozens of widths: they count where they are used, and are no blocks unless asked for by name.
CELLS = frozenset({
    "hca_fifo", "hca_fork", "hca_low_index", "hca_onehot_index", "hca_ram_1r1w", "hca_ram_deep", "hca_ram_words",
    "hca_rr_arb", "hca_skid",
})

SIZE_OF_LITERAL = r"^\d+'d"


@dataclass(frozen=True, order=True)
class Block:
    """A module and its parameters, as read_slang's -G takes them."""

    module: str
    parameters: tuple[tuple[str, str], ...] = ()


@dataclass
class Design:
    """All blocks below one top, with what each instantiates itself, and the files that declare them."""

    top: Block
    children: dict[Block, Counter[Block]] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    packages: dict[str, Path] = field(default_factory=dict)   # in reading order
    include_dirs: list[Path] = field(default_factory=list)
    defines: tuple[str, ...] = DEFINES

    def below(self, block: Block) -> set[Block]:
        """The block and everything inside it."""
        found = {block}
        for child in self.children[block]:
            if child not in found:
                found |= self.below(child)
        return found

    def sources(self, block: Block) -> list[Path]:
        """Files that the block is read from: the modules inside it, and in front of them the packages they name."""
        modules = sorted({self.files[inside.module] for inside in self.below(block)})
        needed: set[str] = set()
        waiting = list(modules)
        while waiting:
            named = set(re.findall(r"\b(\w+)::", waiting.pop().read_text())) & self.packages.keys() - needed
            needed |= named
            waiting += [self.packages[name] for name in named]
        return [path for name, path in self.packages.items() if name in needed] + modules

    def parts(self) -> Counter[Block]:
        """What the card is the sum of: all that wiring instantiates, and how often."""
        found: Counter[Block] = Counter()
        waiting = Counter({self.top: 1})
        while waiting:
            block, count = waiting.popitem()
            for child, times in self.children[block].items():
                (waiting if child.module in WIRING else found)[child] += count * times
        return found

    def blocks(self) -> list[Block]:
        """Everything that is neither wiring nor a cell."""
        return sorted(block for block in self.children if block.module not in WIRING | CELLS)

    def weight(self, block: Block) -> int:
        """A guess at the work that the block is: characters of all that is inside, as often as it is there."""
        inside = sum(times * self.weight(child) for child, times in self.children[block].items())
        return self.files[block.module].stat().st_size + inside

    def named(self, modules: Iterable[str]) -> list[Block]:
        """The blocks of these modules, all parameters that occur; an unknown name is an error."""
        wanted = set(modules)
        if unknown := wanted - set(self.files):
            raise ValueError(f"{self.top.module} has no {' '.join(sorted(unknown))}")
        return sorted(block for block in self.children if block.module in wanted)

    def label(self, block: Block) -> str:
        """The module, with those parameters that tell it from its other forms."""
        forms = [dict(other.parameters) for other in self.children if other.module == block.module]
        differ = [f"{name}={re.sub(SIZE_OF_LITERAL, '', value)}" for name, value in block.parameters
                  if any(form[name] != value for form in forms)]
        return " ".join([block.module, *differ])


def elaborate_for(names: Iterable[str], defines: tuple[str, ...] = DEFINES) -> Design:
    """What the modules of these names are in: the soft core, if all are of it, else the card."""
    is_soc = bool(names) and all(name.startswith(SOC_NAMES) for name in names)
    return elaborate(SOC_LISTS, SOC_TOP, defines) if is_soc else elaborate(defines=defines)


def elaborate(lists: tuple[str, ...] = LISTS, top: str = TOP, defines: tuple[str, ...] = DEFINES) -> Design:
    """Elaborates the card with slang, the frontend that synthesis uses."""
    files = filelist.FileList()
    for path in lists:
        filelist.read(path, files)
    options = [f"-D{define}" for define in defines] + [f"+incdir+{folder}" for folder in files.include_dirs]
    slang = driver.Driver()
    slang.addStandardArgs()
    command = ["slang", "--top", top, *options, *map(str, files.sources)]
    if not (slang.parseCommandLine(" ".join(command)) and slang.processOptions() and slang.parseAllSources()):
        raise ValueError(f"{top}: slang cannot read {' '.join(lists)}")
    compilation = slang.createCompilation()
    instance = next((found for found in compilation.getRoot().topInstances if found.name == top), None)
    if instance is None:
        raise ValueError(f"{' '.join(lists)} has no top module {top}")
    design = Design(block_of(instance), include_dirs=files.include_dirs, defines=defines)
    for path in files.sources:
        for name in re.findall(r"^package\s+(\w+)", path.read_text(), re.MULTILINE):
            design.packages[name] = path
    collect(design, instance, lambda symbol: Path(slang.sourceManager.getFileName(symbol.location)).resolve())
    return design


def collect(design: Design, instance, file_of) -> None:
    """Adds the instance and all below it; a block that is known has been walked through."""
    block = block_of(instance)
    if block in design.children:
        return
    design.files[block.module] = file_of(instance.definition)
    below = list(instances(instance.body))
    design.children[block] = Counter(block_of(child) for child in below)
    for child in below:
        collect(design, child, file_of)


def block_of(instance) -> Block:
    """The instance's module and the parameters that can be given from outside."""
    parameters = [(parameter.name, literal(parameter.value)) for parameter in instance.body.parameters
                  if not parameter.isLocalParam]
    return Block(instance.definition.name, tuple(parameters))


def literal(value) -> str:
    """A constant as SystemVerilog writes it."""
    return str(value.value)


def instances(scope) -> Iterator:
    """Instances of modules in a scope, also in its generate blocks and arrays."""
    for member in scope:
        if member.kind == SymbolKind.Instance:
            if member.isModule:
                yield member
        elif member.kind in (SymbolKind.InstanceArray, SymbolKind.GenerateBlockArray):
            yield from instances(member)
        elif member.kind == SymbolKind.GenerateBlock and not member.isUninstantiated:
            yield from instances(member)
