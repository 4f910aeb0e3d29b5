"""A host that sends back what comes to an address: `mirror.py INTERFACE ADDRESS...`.

It exchanges source and destination, so whoever connects to the address meets himself, over the network. Checksums stay what they are: both addresses are summed in either order.
"""
import socket, sys

OUTGOING = 4
addresses = {}
for text in sys.argv[2:]:
    family = socket.AF_INET6 if ':' in text else socket.AF_INET
    # Ethernet's type; where the source lies; how long it is.
    kind, at, length = (b'\x86\xdd', 22, 16) if family == socket.AF_INET6 else (b'\x08\x00', 26, 4)
    addresses[kind] = (socket.inet_pton(family, text), at, length)

wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
wire.bind((sys.argv[1], 0))
print('ready', flush=True)
while True:
    frame, (_, _, direction, _, _) = wire.recvfrom(65536)
    address, at, length = addresses.get(frame[12:14], (None, 0, 0))
    middle, end = at + length, at + 2 * length
    if direction != OUTGOING and frame[middle:end] == address:
        wire.send(frame[6:12] + frame[:6] + frame[12:at] + frame[middle:end] + frame[at:middle] + frame[end:])
