#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the include table of docs/design.md: which folder may include which, and no cycles.

Every folder may include itself. Also: the headers of an instruction set stay in its own folder
of kernels, and only api.c and the tests see backends/registry.h.
"""
import re

from csource import C_FOLDERS, c_files, code_of, finish, relative

BELOW_PIPELINE = "base kernels tensor formats text audio hub nn models decode"
MAY_INCLUDE = {
    "base": "",
    "kernels": "base",
    "tensor": "base",
    "backends": "base tensor",
    "backends/cpu": "base tensor kernels",
    "backends/cuda": "base tensor",
    "formats": "base",
    "text": "base",
    "audio": "base kernels",
    "hub": "base",
    "nn": "base tensor",
    "models": "base tensor formats nn",
    "decode": "base",
    "pipeline": BELOW_PIPELINE + " vocis.h",
    "api.c": BELOW_PIPELINE + " pipeline vocis.h",
}
# The one table of what is linked in has to see the backends, and the API the table.
EXTRA = {("src/api.c", "backends/registry.h"), ("src/backends/registry.h", "kernels/kernels.h"),
         ("src/backends/registry.c", "backends/cpu/cpu.h"),
         ("src/backends/registry.c", "backends/cuda/cuda.h")}
ONLY_PUBLIC = ("cli", "server", "bindings", "examples")
INTRINSICS = {"immintrin.h": "src/kernels/x86/", "arm_neon.h": "src/kernels/arm/",
              "cpuid.h": "src/base/"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)


def part_of(path):
    """The row of the table for a path below src/ ("tensor/graph.h", "vocis.h")."""
    pieces = path.split("/")
    if pieces[0] == "backends" and len(pieces) > 2:
        return "/".join(pieces[:2])
    return pieces[0]


def problem_of(where, quoted, target):
    home = INTRINSICS.get(target)
    if home and not where.startswith(home) and where.startswith("src/"):
        return f"belongs to {home} only"
    if not quoted:
        return None
    folder = where.split("/")[0]
    if folder in ONLY_PUBLIC:
        own = "/" not in target and target != "vocis.h"
        return None if own or target == "vocis.h" else "sees only vocis.h"
    if folder != "src" or (where, target) in EXTRA:
        return None
    source, wanted = part_of(where.removeprefix("src/")), part_of(target)
    if source not in MAY_INCLUDE:
        return f"folder {source} is not in the include table"
    if wanted == source or wanted in MAY_INCLUDE[source].split():
        return None
    return f"{source} may include: {MAY_INCLUDE[source] or 'only itself'}"


def cycles(edges):
    """Folders that include each other, by depth-first search."""
    done, path = set(), []

    def visit(node):
        if node in path:
            yield " -> ".join(path[path.index(node):] + [node])
        elif node not in done:
            path.append(node)
            for following in sorted(edges.get(node, ())):
                yield from visit(following)
            done.add(path.pop())

    for node in sorted(edges):
        yield from visit(node)


def main():
    problems, edges, count = [], {}, 0
    for path in c_files(C_FOLDERS):
        where, text = relative(path), code_of(path.read_text(), keep_strings=True)
        for match in INCLUDE.finditer(text):
            quoted, target = match.group(1) == '"', match.group(2)
            count += 1
            complaint = problem_of(where, quoted, target)
            if complaint:
                line = text.count("\n", 0, match.start()) + 1
                problems.append(f"{where}:{line}: includes {target}: {complaint}")
            if quoted and where.startswith("src/") and "/" in target:
                source, wanted = part_of(where[4:]), part_of(target)
                if source != wanted and source != "api.c":
                    edges.setdefault(source, set()).add(wanted)
    problems += [f"cycle: {c}" for c in cycles(edges)]
    finish(problems, f"{count} includes")


main()
