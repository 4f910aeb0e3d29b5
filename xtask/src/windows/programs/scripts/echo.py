# The peer of programs that echo: a server, or a client that checks what comes back.
#
#     echo.py server ADDRESS PORT
#     echo.py client ADDRESS PORT ROUND_TRIPS BYTES

import socket
import sys
import threading
import time

here = (sys.argv[2], int(sys.argv[3]))


def datagrams(udp):
    while True:
        data, peer = udp.recvfrom(65536)
        udp.sendto(data, peer)


def stream(peer):
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := peer.recv(65536):
        peer.sendall(data)
    peer.close()


def serve():
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(here)
    threading.Thread(target=datagrams, args=(udp,), daemon=True).start()
    tcp = socket.create_server(here, backlog=100)
    print("ready", flush=True)
    while True:
        threading.Thread(target=stream, args=(tcp.accept()[0],), daemon=True).start()


def pattern(count, seed):
    return bytes((place * 7 // 5 + seed) & 255 for place in range(count))


def exactly(tcp, count):
    parts = bytearray()
    while len(parts) < count:
        part = tcp.recv(min(65536, count - len(parts)))
        assert part, f"the stream ends after {len(parts)} bytes"
        parts += part
    return bytes(parts)


def connected():
    tcp = socket.create_connection(here, timeout=10)
    tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return tcp


def ask(round_trips, count):
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.settimeout(10)
    udp.connect(here)
    tcp = connected()
    times = []
    for number in range(round_trips):
        sent = pattern(64, number)
        udp.send(sent)
        assert udp.recv(65536) == sent, f"datagram {number} has another answer"
        begin = time.perf_counter_ns()
        tcp.sendall(sent)
        answer = exactly(tcp, 64)
        times.append(time.perf_counter_ns() - begin)
        assert answer == sent, f"message {number} has another answer"
    data = pattern(count, 1)
    sender = threading.Thread(target=tcp.sendall, args=(data,))
    sender.start()
    assert exactly(tcp, count) == data, "the stream has other bytes"
    sender.join()
    many = [connected() for _ in range(30)]
    for number, one in enumerate(many):
        one.sendall(bytes([number]))
    for number, one in enumerate(many):
        assert exactly(one, 1) == bytes([number]), f"connection {number} has another's answer"
    times.sort()
    print(f"p50_us={times[len(times) // 2] / 1000:.1f}")
    print("done", flush=True)


if sys.argv[1] == "server":
    serve()
else:
    ask(int(sys.argv[4]), int(sys.argv[5]))
