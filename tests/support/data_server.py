#!/usr/bin/env python3
"""A server of one file, which serves it in many ways, good and bad.

  tests/support/data_server.py FILE LOG     prints its port; writes a line of JSON to LOG for each request

The first part of a path says how; the last is the file's name:
  /whole/x   Range, If-Range, If-None-Match     /cut/N/x      closes the connection after N bytes
  /untagged/N/x   as cut, without an ETag       /rangeless/N/x   as cut, without parts
  /long/x    says that it has 10 bytes more     /other/x      sends another part than was asked for
  /chunked/x without a length                   /endless/x    without an end
  /slow/x    pauses after each of 100 pieces    /busy/N/x     status 503 N times
  /status/N/x     that status                   /changed/N/x  cut once, then another content
  /heads/x   a head without an end              /mixed/N/x    as changed, whatever If-Range asks for
  /to/URL    redirects to the percent-encoded URL
Others are objects of an S3 store, whose requests need the signature of AKID with the secret kept/+secret
(with the token given by the environment variable TOKEN, if any). Those of the bucket "moved" are redirected
to the URL in the environment variable MOVED; those of "open" need no signature.
"""
import collections
import hashlib
import hmac
import http.server
import itertools
import json
import os
import sys
import threading
import time
import urllib.parse

CONTENT = open(sys.argv[1], "rb").read()
OTHER = CONTENT[::-1]
SECRET = "kept/+secret"
asked = collections.Counter()
lock = threading.Lock()


def etag(content):
    return '"' + hashlib.md5(content).hexdigest() + '"'


def signature(secret, day, region, method, path, headers, names, payload):
    """AWS Signature Version 4, as its documentation tells it."""
    def sign(key, text):
        return hmac.new(key, text.encode(), hashlib.sha256).digest()
    lines = "".join(f"{name}:{headers[name].strip()}\n" for name in names)
    request = "\n".join([method, path, "", lines, ";".join(names), payload])
    scope = f"{day}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope,
                      hashlib.sha256(request.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in (day, region, "s3", "aws4_request"):
        key = sign(key, part)
    return sign(key, text).hex()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def head(self, status, length, **fields):
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in fields.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def refuse(self, status, text=""):
        body = f"<Error><Code>{text}</Code></Error>".encode()
        self.head(status, len(body))
        self.wfile.write(body)

    def serve(self, content, cut=None, tagged=True, parts=True, shift=0, more=0, heed=True):
        tag = etag(content)
        if tagged and self.headers.get("If-None-Match") == tag:
            return self.head(304, None, ETag=tag)
        start = 0
        wanted = self.headers.get("Range")
        if parts and wanted and (not heed or self.headers.get("If-Range", tag) == tag):
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) - shift
        body = content[start:]
        tag = tag if tagged else None
        if start:
            self.head(206, len(body) + more, ETag=tag, Content_Range=f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.head(200, len(body) + more, ETag=tag)
        self.wfile.write(body if cut is None else body[:cut])
        if cut is not None and cut < len(body) or more:
            self.close_connection = True

    def chunk(self, piece):
        self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")

    def s3(self):
        path = self.path
        bucket = path.split("/")[1]
        if bucket == "moved":
            return self.head(307, 0, Location=os.environ["MOVED"])
        headers = {name.lower(): value for name, value in self.headers.items()}
        authorization = headers.get("authorization", "")
        if bucket != "open":
            if not authorization.startswith("AWS4-HMAC-SHA256 "):
                return self.refuse(403, "AccessDenied")
            fields = dict(part.strip().split("=", 1) for part in authorization.split(" ", 1)[1].split(","))
            key, day, region = fields["Credential"].split("/")[:3]
            names = fields["SignedHeaders"].split(";")
            needed = {"host"} | {name for name in headers if name.startswith("x-amz-")}
            right = (key == "AKID" and needed <= set(names) and "?" not in path and
                     headers.get("x-amz-security-token", "") == os.environ.get("TOKEN", "") and
                     headers["x-amz-content-sha256"] == hashlib.sha256(b"").hexdigest() and
                     signature(SECRET, day, region, "GET", path, headers, names,
                               headers["x-amz-content-sha256"]) == fields["Signature"])
            if not right:
                return self.refuse(403, "SignatureDoesNotMatch")
        if path.endswith("/none"):
            return self.refuse(404, "NoSuchKey")
        return self.serve(CONTENT, cut=len(CONTENT) // 2 if path.endswith("/cut") else None)

    def do_GET(self):
        with lock:
            asked[self.path] += 1
            times = asked[self.path]
            with open(sys.argv[2], "a") as log:
                log.write(json.dumps({"path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}}) + "\n")
        how, _, rest = self.path[1:].partition("/")
        number = int(rest.split("/")[0]) if rest.split("/")[0].isdigit() else 0
        try:
            self.answer(how, rest, number, times)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def answer(self, how, rest, number, times):
        if how == "whole":
            self.serve(CONTENT)
        elif how == "cut":
            self.serve(CONTENT, cut=number)
        elif how == "untagged":
            self.serve(CONTENT, cut=number, tagged=False)
        elif how == "rangeless":
            self.serve(CONTENT, cut=number, parts=False)
        elif how == "long":
            self.serve(CONTENT, more=10, parts=False)
        elif how == "other":
            self.serve(CONTENT, cut=len(CONTENT) // 2 if times == 1 else None, shift=1)
        elif how in ("changed", "mixed"):
            first = times == 1
            self.serve(CONTENT if first else OTHER, cut=number if first else None, heed=how == "changed")
        elif how == "heads":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for at in itertools.count():
                self.wfile.write(f"x-{at}: {'y' * 1000}\r\n".encode())
        elif how == "busy":
            self.serve(CONTENT) if times > number else self.refuse(503)
        elif how == "status":
            self.refuse(number)
        elif how == "to":
            self.head(302, 0, Location=urllib.parse.unquote(rest))
        elif how == "slow":
            self.head(200, len(CONTENT), ETag=etag(CONTENT))
            size = len(CONTENT) // 100 + 1
            for at in range(0, len(CONTENT), size):
                self.wfile.write(CONTENT[at:at + size])
                time.sleep(0.1)
        elif how in ("chunked", "endless"):
            self.head(200, None, Transfer_Encoding="chunked", ETag=etag(CONTENT))
            self.chunk(CONTENT)
            while how == "endless":
                self.chunk(CONTENT)
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.s3()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
