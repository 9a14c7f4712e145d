"""Kernels as WebAssembly modules: what they export, what they import, and that they compute what Python's do."""

import base64
import json
import shutil
import subprocess

import numpy as np
import pytest

from servonode.kernels.language import KernelError
from servonode.kernels.wasm import wasm_module

NODE = shutil.which("node")
TEXTS = {
    "kernel_a": """
def double(x: f64) -> f64:
    return 2.0*x


def angle(x: f64[2]) -> f64:
    return atan2(x[1], x[0])


def unused(x: f64) -> f64:
    return tan(x)
""",
    "kernel_b": """
from kernel_a import double, angle


def filled(n: i64, x: f64[:], out: f64[:]) -> i64:
    for i in range(n):
        out[i] = double(x[i]) if x[i] > 0.0 else rint(x[i])
    return n // 2
""",
}
PROGRAM = """
const module = new WebAssembly.Module(Buffer.from(process.argv[1], "base64"));
const memory = new WebAssembly.Memory({ initial: 4 });
const stack = new WebAssembly.Global({ value: "i32", mutable: true }, 65536);
const env = { __linear_memory: memory, __stack_pointer: stack, atan2: Math.atan2 };
const { exports } = new WebAssembly.Instance(module, { env });
const [view, numbers] = [new DataView(memory.buffer), new Float64Array(memory.buffer)];
view.setBigInt64(65536, 4n, true);
view.setUint32(65544, 70000, true);
view.setUint32(65552, 80000, true);
numbers.set([1.5, -0.5, -2.5, 3], 70000 / 8);
const half = Number(exports.fill(65536));
view.setUint32(65536, 70000, true);
const bits = exports.angle(65536);
const angle = new Float64Array(new BigInt64Array([bits]).buffer)[0];
console.log(JSON.stringify({ half, angle, out: Array.from(numbers.slice(10000, 10004)),
  exported: WebAssembly.Module.exports(module).map(({ name }) => name),
  imported: WebAssembly.Module.imports(module).map(({ name }) => name) }));
"""


def module() -> bytes:
    return wasm_module({"fill": ("kernel_b", "filled"), "angle": ("kernel_a", "angle")}, TEXTS.__getitem__)


def test_a_module_begins_as_the_standard_says_and_has_no_sections_for_linkers() -> None:
    found = module()
    assert found[:8] == b"\0asm\x01\0\0\0"
    assert b"linking" not in found
    assert b"reloc." not in found


@pytest.mark.skipif(not NODE, reason="needs Node.js: apt install nodejs")
def test_a_module_computes_what_it_exports_and_has_nothing_else() -> None:
    text = base64.b64encode(module()).decode()
    done = subprocess.run([str(NODE), "-e", PROGRAM, text], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["exported"] == ["fill", "angle"]
    assert set(found["imported"]) <= {"__linear_memory", "__stack_pointer", "__indirect_function_table", "atan2"}
    assert found["half"] == 2
    assert found["out"] == [3.0, -0.0, -2.0, 6.0]
    assert found["angle"] == np.arctan2(-0.5, 1.5)


def test_a_function_that_is_not_there_is_refused() -> None:
    with pytest.raises(KernelError, match="import of absent"):
        wasm_module({"absent": ("kernel_a", "absent")}, TEXTS.__getitem__)
