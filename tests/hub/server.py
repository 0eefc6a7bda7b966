# SPDX-License-Identifier: MIT
"""A pretended Hugging Face hub on 127.0.0.1 with two ports: the hub, and a storage host.

The owner in /OWNER/REPO/resolve/REVISION/FILE says how it misbehaves. Every request is one
line of the log file given as the only argument: port path authorization range.
"""
import hashlib
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SIZES = {"model.bin": 300000, "config.json": 100, "tokenizer.json": 5000, "vocabulary.txt": 700,
         "model-00001-of-00002.safetensors": 4000, "model-00002-of-00002.safetensors": 3000}
COMMIT = "0123456789abcdef0123456789abcdef01234567"
seen = {}
lock = threading.Lock()


def content(name):
    if name == "model.safetensors.index.json":
        return json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors",
                                          "b": "model-00002-of-00002.safetensors"}}).encode()
    seed = sum(name.encode())
    return bytes((i * 7 + i // 251 + seed) % 256 for i in range(SIZES[name]))


def sha256(name):
    return hashlib.sha256(content(name)).hexdigest()


def listing(repo):
    names = {
        "list/ctranslate2": ["model.bin", "config.json", "tokenizer.json", "README.md",
                             "pytorch_model.bin", "model.safetensors", "../evil.safetensors",
                             "/tmp/evil.json", "onnx/model.bin", ".gitattributes"],
        "list/sharded": ["model.safetensors.index.json", "model-00001-of-00002.safetensors",
                         "model-00002-of-00002.safetensors", "config.json", "tf_model.h5"],
        "list/none": ["config.json", "ggml-base.bin"],
    }.get(repo)
    if names is None:
        return None
    siblings = []
    for name in names:
        sibling = {"rfilename": name}
        if name in SIZES:
            sibling["size"] = SIZES[name]
            if name == "model.bin" or name.endswith(".safetensors"):
                sibling["lfs"] = {"sha256": sha256(name), "size": SIZES[name]}
        siblings.append(sibling)
    return json.dumps({"id": repo, "sha": COMMIT, "siblings": siblings}).encode()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients that go away are part of the tests


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for key, value in headers:
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_file(self, data, cut=None, ranges=True, stall=False):
        start = 0
        wanted = self.headers.get("Range")
        if wanted and ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(data):
                return self.answer(416)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        body = data[start:]
        if stall:
            self.wfile.write(body[:1000])
            self.wfile.flush()
            time.sleep(30)
        elif cut:
            self.wfile.write(body[:cut])
            self.wfile.flush()
            self.close_connection = True
        else:
            self.wfile.write(body)

    def redirect(self, url, headers=()):
        self.answer(302, b"elsewhere", [("Location", url), *headers])

    def do_GET(self):
        port = self.server.server_address[1]
        with lock:
            log.write(f"{'hub' if port == hub_port else 'storage'} {self.headers.get('Host')} "
                      f"{self.path} auth={self.headers.get('Authorization')} "
                      f"range={self.headers.get('Range')}\n")
            log.flush()
            count = seen[self.path] = seen.get(self.path, 0) + 1
        if self.path.startswith("/api/models/"):
            body = listing(self.path.removeprefix("/api/models/").split("?")[0])
            return self.answer(404) if body is None else self.answer(200, body)
        parts = self.path.strip("/").split("/")
        owner, name = parts[0], parts[-1]
        if name not in SIZES and name != "model.safetensors.index.json":
            return self.answer(404, b"no such file")
        self.behave(owner, name, content(name), count)

    def behave(self, owner, name, data, count):
        if owner == "moved":
            self.redirect(f"http://127.0.0.1:{storage_port}/storage/{name}",
                          [("X-Linked-Etag", f'"{sha256(name)}"'),
                           ("X-Linked-Size", str(len(data)))])
        elif owner == "liar":
            self.redirect(f"http://127.0.0.1:{storage_port}/storage/{name}",
                          [("X-Linked-Etag", f'"{"ab" * 32}"')])
        elif owner == "renamed":
            self.redirect(f"http://localhost:{hub_port}/plain/x/resolve/y/{name}")
        elif owner == "relative":
            self.redirect(f"/plain/x/resolve/y/{name}")
        elif owner == "loop":
            self.redirect(self.path)
        elif owner == "file":
            self.redirect("file:///etc/passwd")
        elif owner in ("drop", "norange") and name == "model.bin" and count < 3:
            self.send_file(data, cut=100000, ranges=owner == "drop")
        elif owner == "norange":
            self.send_file(data, ranges=False)
        elif owner == "wrong" and name == "model.bin":
            self.send_file(b"?" + data[1:])
        elif owner == "long" and name == "model.bin":
            self.send_file(data + b"more")
        elif owner == "stall" and name == "model.bin":
            self.send_file(data, stall=True)
        elif owner == "busy" and count == 1:
            self.answer(503, b"later")
        elif owner == "private" and self.headers.get("Authorization") != "Bearer secret":
            self.answer(401, b"who are you")
        elif owner == "slow":
            time.sleep(0.5)
            self.send_file(data)
        else:
            self.send_file(data)


log = open(sys.argv[1], "a", encoding="utf-8")
servers = [Server(("127.0.0.1", 0), Handler) for _ in range(2)]
hub_port, storage_port = (server.server_address[1] for server in servers)
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
print(hub_port, storage_port, flush=True)
sys.stdin.read()  # until the test closes its end
