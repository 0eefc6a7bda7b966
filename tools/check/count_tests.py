#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the test cases of a CTest run and names those that failed or were skipped.

    count_tests.py JUNIT.xml      first line: PASSED FAILED SKIPPED

A test program of cmocka or Python's unittest counts as its cases, any other as one; a program
that ends badly without saying which case failed counts as one failure.
"""
import re
import sys
import xml.etree.ElementTree as xml

CASES = {  # what is counted: the pattern that names one such case in a program's output
    "cmocka": {"passed": r"^\[       OK \] (\S+)", "failed": r"^\[  FAILED  \] ([^\s\d]\S*)$",
               "skipped": r"^\[  SKIPPED \] ([^\s\d]\S*)$"},
    "unittest": {"passed": r"^(\w+) \(.*\.\.\. ok$", "failed": r"^(?:FAIL|ERROR): (\S+)",
                 "skipped": r"^(\w+) \(.*\.\.\. skipped"},
}


def count(case):
    """{"passed": [names], "failed": [...], "skipped": [...]} of one CTest entry."""
    output = "".join(e.text or "" for e in case.iter("system-out"))
    kind = "cmocka" if "[==========]" in output else "unittest" if "\nRan " in output else None
    result = {"passed": [], "failed": [], "skipped": []}
    for what, pattern in CASES.get(kind, {}).items():
        result[what] = sorted(set(re.findall(pattern, output, re.M)))
    status = case.get("status")
    if status == "fail" and not result["failed"]:
        result["failed"].append("(the program)")
    if not any(result.values()):
        skipped = status != "run" or case.find("skipped") is not None
        result["skipped" if skipped else "passed"].append("")
    return result


def main():
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    lines = []
    for case in xml.parse(sys.argv[1]).getroot().iter("testcase"):
        for what, names in count(case).items():
            totals[what] += len(names)
            if what != "passed":
                lines += [f"{what}: {case.get('name')} {n}".rstrip() for n in names]
    print(*totals.values())
    print("\n".join(lines))


main()
