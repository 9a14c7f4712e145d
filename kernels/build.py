"""From the text of a kernel to machine code. Where the code is kept, none of this is imported."""

from collections.abc import Callable

from servonode.kernels import elf, ir
from servonode.kernels.adapter import ADAPTER
from servonode.kernels.compile import object_code
from servonode.kernels.contents import Contents, entry_of
from servonode.kernels.language import parse
from servonode.kernels.llvm import ENTRY, llvm_text


def built(text: str, text_of: Callable[[str], str]) -> tuple[bytes, Contents]:
    """Machine code of a kernel and what it holds; `text_of` gives the text of one that it takes functions from.

    Raises:
        KernelError: the text is outside of the kernel language.
    """
    module = parse(text, text_of)
    image = elf.image_of(object_code(llvm_text(module) + ADAPTER))
    writes = ir.written(module)
    entries = tuple(
        entry_of(each.signature, image.functions[ENTRY + each.signature.name], writes[each.signature.symbol])
        for each in module.own
    )
    return image.code, Contents(entries, image.functions["adapter"], image.outside, module.constants)
