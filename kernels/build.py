"""From the text of a kernel to machine code. Where the code is kept, none of this is imported."""

from collections.abc import Callable

from servonode.kernels import elf, ir
from servonode.kernels.adapter import ADAPTER_TEXT, PYTHON_FUNCTIONS
from servonode.kernels.compile import object_code
from servonode.kernels.contents import Contents, entry_of
from servonode.kernels.language import parse
from servonode.kernels.llvm import llvm_text


def built(text: str, text_of: Callable[[str], str]) -> tuple[bytes, Contents]:
    """Machine code of a kernel and what it holds; `text_of` gives the text of one that it takes functions from.

    Raises:
        KernelError: the text is outside of the kernel language.
    """
    module = parse(text, text_of)
    code, writes = object_code(llvm_text(module) + ADAPTER_TEXT), ir.written(module)
    entries = tuple(entry_of(each.signature, writes[each.signature.symbol]) for each in module.own)
    if not elf.fits(code):
        return code, Contents(entries, module.constants, {}, dict.fromkeys([*PYTHON_FUNCTIONS, *ir.LIBM], 0))
    image = elf.image_of(code)
    return image.code, Contents(entries, module.constants, image.functions, image.outside)
