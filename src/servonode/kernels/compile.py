"""LLVM IR to object code of this computer's processor, by llvmlite. Not needed where the code is in the cache."""

import functools
from typing import Any

import llvmlite.binding as llvm

OPTIMISATION = 2


@functools.cache
def _machine() -> Any:
    """The target of object code: this computer's processor with all its features."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=OPTIMISATION,
        reloc="pic",
        codemodel="small",
    )


def object_code(text: str, optimise: int = OPTIMISATION) -> bytes:
    """The optimised object code of LLVM IR. It neither contracts nor reorders the operations of the text."""
    machine = _machine()
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=optimise)
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code
