# A web server: gives the files of a folder, keeps what is put, and what is posted as `posted`.
#
#     files.py ADDRESS PORT FOLDER

import http.server
import os
import sys


class Files(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are two segments.
    disable_nagle_algorithm = True

    def keep(self, name):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while length := int(self.rfile.readline(), 16):
                data += self.rfile.read(length)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers["Content-Length"]))
        with open(os.path.join(sys.argv[3], name), "wb") as file:
            file.write(data)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_PUT(self):
        self.keep(os.path.basename(self.path))

    def do_POST(self):
        self.keep("posted")

    def log_message(self, *words):
        pass


def handler(*words):
    return Files(*words, directory=sys.argv[3])


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 100


server = Server((sys.argv[1], int(sys.argv[2])), handler)
print("ready", flush=True)
server.serve_forever()
