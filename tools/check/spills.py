#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The register tiles must stay in registers: disassembles object files and fails when an innermost
loop that multiplies and adds vectors reads a whole vector back from the stack. Stores alone do not
count: a kernel may keep a block of A there, to broadcast single values from.

    spills.py [--list] OBJECT...      --list also prints every loop that was looked at
"""
import re
import subprocess
import sys

LEAST = 4  # multiply-adds in a loop that make it an inner loop of a product
FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
LINE = re.compile(r"^\s*([0-9a-f]+):\s+(?:\{vex\} )?(\S+)\s*(.*)$")
TARGET = re.compile(r"\b([0-9a-f]+) <")
X86 = {
    "jump": re.compile(r"^j[a-z]+$"),
    "fma": re.compile(r"^vfn?m(?:add|sub)|^vp?dp|^vpmadd|^tdp"),
    "other": re.compile(r"^vmov.*%[yz]mm\d+,[^,]*\(|^vp?broadcast|\{1to"),  # stores, single values
    "stack": re.compile(r"\((?:%rsp|%rbp)[,)]"),
    "vector": re.compile(r"%[yz]mm"),
}
ARM = {
    "jump": re.compile(r"^(?:b|b\.[a-z]+|cbn?z|tbn?z)$"),
    "fma": re.compile(r"^fml[as]|^[su]dot|^[su]mmla|^bfm"),
    "other": re.compile(r"^st|^ld[0-9]r|^ldr\s+s"),
    "stack": re.compile(r"\[sp\b"),
    "vector": re.compile(r"\b[qv][0-9]+\b"),
}


def disassemble(path):
    """(rules of the machine, {function: [(address, mnemonic, operands)]})"""
    with open(path, "rb") as f:
        arm = f.read(20)[18:20] == b"\xb7\x00"
    tool = "aarch64-linux-gnu-objdump" if arm else "objdump"
    text = subprocess.run([tool, "-d", "--no-show-raw-insn", path], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    functions, body = {}, None
    for line in text.splitlines():
        name, code = FUNCTION.match(line), LINE.match(line)
        if name:
            body = functions.setdefault(name.group(1), [])
        elif code and body is not None:
            body.append((int(code.group(1), 16), code.group(2), code.group(3)))
    return (ARM if arm else X86), functions


def innermost_loops(rules, code):
    """Ranges of addresses between a jump back and its target that hold no other such range."""
    first = code[0][0] if code else 0
    loops = []
    for address, mnemonic, operands in code:
        target = TARGET.search(operands) if rules["jump"].match(mnemonic) else None
        if target and first <= int(target.group(1), 16) <= address:
            loops.append((int(target.group(1), 16), address))
    return [a for a in loops if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]


def has_frame(code):
    """Whether %rbp points into the stack and is not just one more register."""
    return any(m == "mov" and o == "%rsp,%rbp" or m == "lea" and o.endswith("(%rsp),%rbp")
               for _, m, o in code)


def find_spills(rules, frame, body):
    """The instructions of a loop's body that read whole vectors from the stack."""
    return [(address, mnemonic, operands) for address, mnemonic, operands in body
            if rules["stack"].search(operands) and rules["vector"].search(operands)
            and (frame or "(%rbp" not in operands)
            and not rules["other"].search(f"{mnemonic} {operands}")]


def main():
    listing = sys.argv[1] == "--list" if len(sys.argv) > 1 else False
    paths = sys.argv[2:] if listing else sys.argv[1:]
    problems = checked = 0
    for path in paths:
        rules, functions = disassemble(path)
        for name, code in functions.items():
            frame = rules is ARM or has_frame(code)
            for start, end in innermost_loops(rules, code):
                body = [(a, m, o) for a, m, o in code if start <= a <= end]
                products = sum(1 for _, m, _ in body if rules["fma"].match(m))
                if products < LEAST:
                    continue
                checked += 1
                spills = find_spills(rules, frame, body)
                problems += bool(spills)
                short = path.rsplit("/", 1)[-1]
                if spills or listing:
                    print(f"{short}: {name}+{start - code[0][0]:#x}: {products} multiply-adds in "
                          f"{len(body)} instructions, {len(spills)} read the stack")
                for address, mnemonic, operands in spills:
                    print(f"    {address:x}: {mnemonic} {operands}")
    if not checked:
        print("no inner loop of a product was found")
    print(f"{problems} of {checked} inner loops read the stack")
    sys.exit(1 if problems or not checked else 0)


main()
