"""A host that sends each packet back, with its addresses exchanged.

    mirror.py INTERFACE ADDRESS OWN

Packets of IPv4 to ADDRESS come by INTERFACE from OWN. They go back as if ADDRESS had sent them to
OWN, with the same ports. So both ends of a connection, or of datagrams, are on the sending host,
and each packet crosses the cable twice. The packet in an ICMP error is that of the other end, so
its addresses are exchanged, too. Checksums stay right, for they are sums.
"""
import socket
import sys

INTERFACE, ADDRESS, OWN = sys.argv[1], *map(socket.inet_aton, sys.argv[2:4])
IPV4 = 0x0800
ETHERNET = 14
ICMP = 1
# ICMP's errors that name a packet: unreachable, time exceeded, bad parameter.
ERRORS = (3, 11, 12)


def exchange(frame, at):
    """Exchanges the addresses of the IPv4 header at this place."""
    frame[at + 12:at + 16], frame[at + 16:at + 20] = frame[at + 16:at + 20], frame[at + 12:at + 16]


wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(IPV4))
wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
wire.bind((INTERFACE, IPV4))
print("ready", flush=True)
while True:
    frame = bytearray(wire.recv(65536))
    if frame[ETHERNET + 12:ETHERNET + 20] != OWN + ADDRESS:
        continue
    frame[0:6], frame[6:12] = frame[6:12], frame[0:6]
    exchange(frame, ETHERNET)
    data = ETHERNET + 4 * (frame[ETHERNET] & 15)
    if frame[ETHERNET + 9] == ICMP and frame[data] in ERRORS:
        exchange(frame, data + 8)
    wire.send(frame)
