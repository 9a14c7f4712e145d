"""From the text of a kernel to machine code, by llvmlite. Not imported where the code is in the cache."""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm

from servonode.kernels import ir
from servonode.kernels.adapter import ADAPTER_TEXT
from servonode.kernels.contents import Argument, Contents, Entry
from servonode.kernels.host import this_host
from servonode.kernels.ir import Array, Scalar, Signature, Type
from servonode.kernels.language import parse
from servonode.kernels.llvm import llvm_text

TextOf = Callable[[str], str]
Keeps = Callable[[str, Callable[[], bytes]], bytes]
LARGE = 500_000  # letters of LLVM IR, from which on the passes of level 2 take seconds and make no faster code
_KEY = re.compile(r"kernel_[0-9a-f]{32}")


def built(
    text: str,
    text_of: TextOf,
    kept: Keeps = lambda _, make: make(),
    for_numbers: bool = False,
    later: Sequence[str] = (),
) -> tuple[bytes, Contents]:
    """Object code of a kernel, and its contents; `text_of` gives the text of a kernel from which it imports functions.

    kept: gives object code for LLVM IR, from a cache or from the function it is given: other definitions, and changed
    modules that derive, often come to the same IR.
    for_numbers: the code is the same for all texts that differ only in their numbers.
    later: functions that are compiled only where others of the module call them; other kernels may import them.

    Raises:
        KernelError: the text is outside of the kernel language.
    """
    module, numbers = ir.without(parse(text, text_of), later), list[float]()
    text = llvm_text(module, numbers if for_numbers else None)
    # counters replace the keys of other kernels, because a key depends on more than the IR
    keys = {key: f"kernel_{i}" for i, key in enumerate(dict.fromkeys(_KEY.findall(text)))}
    whole = _KEY.sub(lambda found: keys[found[0]], text) + ADAPTER_TEXT
    code = kept(whole, lambda: _object_code(whole))
    return code, Contents(_entries(module), module.constants, tuple(numbers))


def _entries(module: ir.Module) -> tuple[Entry, ...]:
    writes = ir.written(module)
    return tuple(_entry(each.signature, writes[each.signature.symbol]) for each in module.own)


def _entry(signature: Signature, written: frozenset[str]) -> Entry:
    """The entry of a function; a record's fields are arguments, and a result that is an array is one more."""
    arguments = [_argument(each.name, each.type, each.name in written) for each in signature.arguments]
    result = signature.result
    if isinstance(result, Array):
        arguments.append(_argument("result", result, True))
    return Entry(signature.name, tuple(arguments), result.value if isinstance(result, Scalar) else "")


def _argument(name: str, kind: Type, written: bool) -> Argument:
    name = name.rpartition(".")[2]  # of a record's field
    if isinstance(kind, Scalar):
        return Argument(name, kind.value)
    return Argument(name, kind.element.value, tuple(-1 if n is None else n for n in kind.shape), written)


@functools.cache
def _machine(level: int) -> Any:
    """The target of object code: this computer's processor with all its features."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=level,
        reloc="pic",
        codemodel="small",
    )


def _object_code(text: str) -> bytes:
    """The optimised object code of LLVM IR for this computer."""
    level = this_host().optimisation
    level = min(level, 1) if len(text) > LARGE else level
    return object_for(_machine(level), text, level)


def object_for(machine: Any, text: str, level: int) -> bytes:
    """The optimised object code of LLVM IR for a target; operations are neither contracted nor reordered."""
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code
