"""The peer of the suite, on the kernel of another host.

A connection to its port sends a line of words, which are performed in turn on that connection:

    send:N  text:T  urgent:T    send so many bytes, these bytes, these as urgent ones
    recv:N  drain  take         receive so many bytes, all until the end, the urgent byte
    echo                        send back all until the end
    inline                      leave urgent bytes among the others
    fin  close  reset           end the connection
    sleep:MS  go                wait; until a byte comes by the asking connection
    dial:PORT                   go on with a connection to this port of the asking host
    udp:PORT:N                  send a datagram of N bytes to this port
    tell                        send `BYTES END` to the asking connection

A datagram is sent back; `size:N,N` is answered by datagrams of these sizes, `other:N` by one from
another port. One that begins with `+` is only counted, and `sum:TEXT` is answered by how many were
`+TEXT`.
"""
import collections
import socket
import struct
import sys
import threading
import time

PORT = int(sys.argv[1])


def pattern(count):
    return bytes(ord("a") + i % 26 for i in range(26)) * (count // 26) + bytes(ord("a") + i for i in range(count % 26))


def datagrams(server):
    counted = collections.Counter()
    while True:
        data, peer = server.recvfrom(65536)
        if data.startswith(b"+"):
            counted[data[1:]] += 1
        elif data.startswith(b"sum:"):
            server.sendto(b"%d" % counted.pop(data[4:], 0), peer)
        elif data.startswith(b"size:"):
            for size in data[5:].split(b","):
                server.sendto(pattern(int(size)), peer)
        elif data.startswith(b"other:"):
            with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as other:
                other.sendto(pattern(int(data[6:])), peer)
        else:
            server.sendto(data, peer)


class Script:
    def __init__(self, control, host):
        self.control = self.stream = control
        self.host = host
        self.count = 0
        self.end = "open"

    def received(self, data):
        self.count += len(data)
        if not data:
            self.end = "fin"
        return data

    def perform(self, word):
        name, _, value = word.partition(":")
        try:
            getattr(self, name)(value)
        except ConnectionResetError:
            self.end = "reset"
        except ConnectionRefusedError:
            self.end = "refused"
        except BrokenPipeError:
            self.end = "broken"
        except TimeoutError:
            self.end = "timeout"

    def send(self, value):
        self.stream.sendall(pattern(int(value)))

    def text(self, value):
        self.stream.sendall(value.encode())

    def urgent(self, value):
        self.stream.send(value.encode(), socket.MSG_OOB)

    def take(self, _):
        self.stream.setblocking(False)
        self.end = "none"
        for _ in range(200):
            try:
                self.end = self.stream.recv(1, socket.MSG_OOB).decode()
                break
            except OSError:
                time.sleep(0.01)
        self.stream.settimeout(6)

    def inline(self, _):
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)

    def recv(self, value):
        left = int(value)
        while left and (data := self.received(self.stream.recv(left))):
            left -= len(data)

    def drain(self, _):
        while self.received(self.stream.recv(65536)):
            pass

    def echo(self, _):
        while data := self.received(self.stream.recv(65536)):
            self.stream.sendall(data)

    def fin(self, _):
        self.stream.shutdown(socket.SHUT_WR)

    def close(self, _):
        self.stream.close()

    def reset(self, _):
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.stream.close()

    def sleep(self, value):
        time.sleep(int(value) / 1000)

    def go(self, _):
        self.control.recv(1)

    def dial(self, value):
        self.stream = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        self.stream.settimeout(6)
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream.connect((self.host, int(value)))
        self.end = "connected"

    def udp(self, value):
        port, count = value.split(":")
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender:
            sender.sendto(pattern(int(count)), (self.host, int(port)))

    def tell(self, _):
        self.control.sendall(f"{self.count} {self.end}\n".encode())


def serve(control, host):
    control.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    control.settimeout(6)
    line = b""
    try:
        while not line.endswith(b"\n") and (byte := control.recv(1)):
            line += byte
        script = Script(control, host)
        for word in line.decode().split():
            script.perform(word)
        script.stream.close()
        control.close()
    except OSError:
        pass


udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
udp.bind(("::", PORT))
threading.Thread(target=datagrams, args=(udp,), daemon=True).start()
tcp = socket.create_server(("::", PORT), family=socket.AF_INET6, dualstack_ipv6=True, backlog=200)
print("ready", flush=True)
while True:
    stream, name = tcp.accept()
    threading.Thread(target=serve, args=(stream, name[0]), daemon=True).start()
