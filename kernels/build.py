"""From the text of a kernel to machine code. Where the code is kept, none of this is imported."""

from collections.abc import Callable

from servonode.kernels import elf, ir
from servonode.kernels.adapter import ADAPTER_TEXT, PYTHON_FUNCTIONS
from servonode.kernels.compile import host_target, object_code
from servonode.kernels.contents import Argument, Contents, Entry
from servonode.kernels.ir import Array, Scalar, Signature, Type
from servonode.kernels.language import parse
from servonode.kernels.llvm import llvm_text


def built(text: str, text_of: Callable[[str], str]) -> tuple[bytes, Contents]:
    """Machine code of a kernel and what it holds; `text_of` gives the text of one that it takes functions from.

    Raises:
        KernelError: the text is outside of the kernel language.
    """
    module = parse(text, text_of)
    code, writes = object_code(llvm_text(module) + ADAPTER_TEXT), ir.written(module)
    entries = tuple(_entry(each.signature, writes[each.signature.symbol]) for each in module.own)
    target = host_target()
    if not elf.fits(code):
        return code, Contents(target, entries, module.constants, {}, dict.fromkeys([*PYTHON_FUNCTIONS, *ir.LIBM], 0))
    image = elf.image_of(code)
    return image.code, Contents(target, entries, module.constants, image.functions, image.outside)


def _entry(signature: Signature, written: frozenset[str]) -> Entry:
    """The entry of a function; what it gives back as an array is one argument more."""
    arguments = [_argument(each.name, each.type, each.name in written) for each in signature.arguments]
    result = signature.result
    if isinstance(result, Array):
        arguments.append(_argument("result", result, True))
    return Entry(signature.name, tuple(arguments), result.value if isinstance(result, Scalar) else "")


def _argument(name: str, kind: Type, written: bool) -> Argument:
    if isinstance(kind, Scalar):
        return Argument(name, kind.value)
    return Argument(name, kind.element.value, tuple(-1 if n is None else n for n in kind.shape), written)
