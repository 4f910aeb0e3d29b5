"""Echoes data of port 9000, on connections and as datagrams. For `connect` on a connection it first
connects back to the peer's port 7000."""
import socket
import sys
import threading


def serve(connection, peer):
    try:
        while data := connection.recv(65536):
            if data == b'connect':
                back = socket.create_connection((peer, 7000))
                back.sendall(b'hello')
                threading.Thread(target=serve, args=(back, peer), daemon=True).start()
            connection.sendall(data)
    except OSError:
        pass
    connection.close()


def datagrams():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind((sys.argv[1], 9000))
        while True:
            data, peer = own.recvfrom(65536)
            own.sendto(data, peer)


threading.Thread(target=datagrams, daemon=True).start()
listener = socket.create_server((sys.argv[1], 9000))
while True:
    connection, (peer, _) = listener.accept()
    threading.Thread(target=serve, args=(connection, peer), daemon=True).start()
