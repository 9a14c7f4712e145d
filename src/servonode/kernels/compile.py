"""LLVM IR to object code of this computer's processor, by llvmlite. Not needed where the code is in the cache."""

import functools
from typing import Any

import llvmlite.binding as llvm

from servonode.kernels.contents import Target
from servonode.kernels.host import this_host

OPTIMISATION = 2


@functools.cache
def host_target() -> Target:
    """The target of object code: this computer's processor with all its features."""
    return Target(llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), this_host())


@functools.cache
def _machine() -> Any:
    made_for = host_target()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=made_for.processor, features=made_for.features, opt=OPTIMISATION, reloc="pic", codemodel="small"
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
