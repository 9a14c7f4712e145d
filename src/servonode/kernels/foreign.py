"""Object code that only llvmlite can load: of another processor than x86-64, or of another system than Linux.

Where `elf` makes an image, nothing of this is needed; here each start takes the time to load llvmlite.
"""

from collections.abc import Callable, Iterable
from typing import Any

import llvmlite.binding as llvm

_engines: list[Any] = []  # they own the code


def loaded(code: bytes, outside: Iterable[str], address_of: Callable[[str], int]) -> Callable[[str], int]:
    """Load object code; returns a function that gives the address of each of its functions by name."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name in outside:
        llvm.add_symbol(name, address_of(name))
    module = llvm.parse_assembly("")
    module.triple = llvm.get_process_triple()
    engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    found: Callable[[str], int] = engine.get_function_address
    return found
