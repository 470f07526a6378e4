#!/usr/bin/env python3
"""A collector of OpenTelemetry metrics, good and bad.

  tests/support/collector.py MODE LOG     prints its port; writes a line of JSON to LOG for each request it takes

The file MODE says how it answers:
  ok       takes the metrics               slow     likewise, after 300 ms
  busy     status 503                      closes   ends the connection without an answer
  refuses  status 400                      partial  rejects 3 points of each request
  silent   does not answer for 20 s        garbage  answers what is not HTTP
"""
import http.server
import json
import sys
import threading
import time

lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"{}"):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        mode = open(sys.argv[1]).read().strip()
        if mode == "silent":
            time.sleep(20)
        if mode in ("silent", "closes", "garbage"):
            if mode == "garbage":
                self.wfile.write(b"no HTTP\r\n\r\n")
            self.close_connection = True
            return
        if mode in ("busy", "refuses"):
            self.answer(503 if mode == "busy" else 400)
            return
        if mode == "slow":
            time.sleep(0.3)
        with lock, open(sys.argv[2], "a") as log:
            print(json.dumps({"path": self.path, "type": self.headers["Content-Type"], "key": self.headers["api-key"],
                              "body": json.loads(body)}), file=log)
        rejected = {"partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "too old"}}
        self.answer(200, json.dumps(rejected if mode == "partial" else {}).encode())


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
