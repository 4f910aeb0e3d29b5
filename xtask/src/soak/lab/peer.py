"""The programs of the endurance test in the lab. Both ends compare the received data byte for byte.
They do not know of Tickwire.

    peer.py serve PORT
        echoes streams and datagrams, at all addresses of both families
    peer.py talk SEED PORT THREADS COUNT ADDRESS...
        streams and datagrams to such a server, COUNT by each thread (0: until SIGUSR1)

Lines on standard output: `ready`; `wrong WHAT` at once; for each stream
`stream OUTCOME FAMILY BYTES BEGIN END` and for each datagram socket
`datagrams OUTCOME SENT BACK TWICE BEGIN END`, with times of the machine's monotonic clock; `idle`
when all threads have ended. SIGTERM ends it.
"""
import errno, random, select, signal, socket, struct, sys, threading, time

HEADER = struct.Struct('!QQ')
LENGTH = 1000003
BASE = random.Random(7).randbytes(LENGTH)
BASE += BASE[:1 << 17]
# The most data of a stream in flight before reading the echo; all socket buffers hold this much.
WINDOW = 48 * 1024
# The timeout of a stream. No disturbance of the hosts lasts this long.
TIMEOUT = 20
over = threading.Event()
lines = threading.Lock()


def say(*words):
    with lines:
        print(*words, flush=True)


def pattern(seed, at, length):
    start = (seed + at) % LENGTH
    return BASE[start:start + length]


def name(error):
    return 'silence' if isinstance(error, TimeoutError) and error.errno is None else errno.errorcode.get(error.errno, str(error))


def lively(s):
    """Keepalive, so that a peer killed while the link is down is detected within seconds."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 2)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6)


def serve_stream(c):
    with c:
        try:
            lively(c)
            head = b''
            while len(head) < HEADER.size:
                piece = c.recv(HEADER.size - len(head))
                if not piece:
                    return
                head += piece
            seed, length = HEADER.unpack(head)
            at = 0
            while data := c.recv(65536):
                if data != pattern(seed, at, len(data)):
                    say('wrong bytes of stream', seed, 'arrived from', at, 'on')
                    return
                at += len(data)
                if at > length:
                    say('wrong end of stream', seed, 'of', length, 'bytes:', at, 'arrived')
                    return
                c.sendall(data)
        except OSError:
            # The other end reports the reason.
            pass


def serve_datagrams(s):
    while True:
        try:
            data, peer = s.recvfrom(65536)
        except OSError:
            continue
        seed, at = HEADER.unpack(data[:HEADER.size])
        if data[HEADER.size:] != pattern(seed, at, len(data) - HEADER.size):
            say('wrong bytes of datagram', seed, at)
        try:
            s.sendto(data, peer)
        except OSError:
            pass


def accept(listener):
    while True:
        try:
            c, _ = listener.accept()
        except OSError:
            time.sleep(0.01)
            continue
        threading.Thread(target=serve_stream, args=(c,), daemon=True).start()


def bound(make):
    """Makes a server's socket; waits until the port of a killed server is free again."""
    end = time.monotonic() + 10
    while True:
        try:
            return make()
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > end:
                raise
        time.sleep(0.02)


def datagram_socket(family, name):
    s = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.bind(name)
    return s


def serve(port):
    for family, any_address in (socket.AF_INET, ''), (socket.AF_INET6, '::'):
        name = any_address, port
        s = bound(lambda: datagram_socket(family, name))
        threading.Thread(target=serve_datagrams, args=(s,), daemon=True).start()
        listener = bound(lambda: socket.create_server(name, family=family, backlog=64))
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
    say('ready')
    while True:
        time.sleep(60)


def back(s, seed, at):
    """Receives more of the echo; returns the new offset, and the outcome if the stream is over."""
    data = s.recv(65536)
    if not data:
        return at, 'end'
    if data != pattern(seed, at, len(data)):
        say('wrong bytes of stream', seed, 'came back from', at, 'on')
        return at, 'wrong'
    return at + len(data), None


def stream(dice, address, port):
    seed = dice.getrandbits(48)
    length = dice.choice([1, 500, 20_000, 200_000, 1_000_000])
    piece = dice.choice([64, 1000, 1448, 8192, 30_000]) if length < 100_000 else dice.choice([8192, 30_000])
    window = dice.choice([piece, WINDOW])
    pause = dice.choice([0, 0, 0.002, 0.02]) if length // piece < 500 else 0
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    begin, sent, came, outcome = time.monotonic(), 0, 0, None
    try:
        with socket.socket(family) as s:
            s.settimeout(TIMEOUT)
            outcome = 'connecting'
            s.connect((address, port))
            outcome = None
            lively(s)
            s.sendall(HEADER.pack(seed, length))
            while sent < length and not outcome:
                more = pattern(seed, sent, min(piece, length - sent))
                s.sendall(more)
                sent += len(more)
                while sent - came + piece > window and came < sent and not outcome:
                    came, outcome = back(s, seed, came)
                if pause and not over.is_set():
                    time.sleep(pause)
            if not outcome:
                s.shutdown(socket.SHUT_WR)
            while not outcome:
                came, outcome = back(s, seed, came)
            if outcome == 'end':
                outcome = 'ok' if came == sent == length else 'short'
    except OSError as error:
        outcome = ('connecting:' if outcome == 'connecting' else '') + name(error)
    say('stream', outcome, 'v6' if ':' in address else 'v4', came, begin, time.monotonic())


def datagrams(dice, address, port):
    seed = dice.getrandbits(48)
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    connected = dice.random() < 0.5
    largest = dice.choice([100, 1400, 5000])
    begin, sent, twice, outcome, answered = time.monotonic(), 0, 0, 'ok', set()
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(0.3)
        try:
            if connected:
                s.connect((address, port))
            for number in range(dice.choice([10, 100])):
                at = number * 10_000
                data = HEADER.pack(seed, at) + pattern(seed, at, dice.randrange(largest))
                if connected:
                    s.send(data)
                else:
                    s.sendto(data, (address, port))
                sent += 1
                try:
                    while True:
                        echo = s.recv(65536)
                        got, where = HEADER.unpack(echo[:HEADER.size])
                        if got != seed or echo[HEADER.size:] != pattern(seed, where, len(echo) - HEADER.size):
                            say('wrong datagram came back', seed, at)
                        twice += where in answered
                        answered.add(where)
                        if where == at:
                            break
                except TimeoutError as error:
                    if error.errno is not None:
                        raise
                if over.is_set():
                    break
        except OSError as error:
            outcome = name(error)
    say('datagrams', outcome, sent, len(answered), twice, begin, time.monotonic())


def work(seed, port, count, addresses):
    dice, done = random.Random(seed), 0
    while not over.is_set() and (not count or done < count):
        done += 1
        if dice.random() < 0.7:
            stream(dice, dice.choice(addresses), port)
        else:
            # A server bound to the wildcard address replies from the first address of its host.
            datagrams(dice, dice.choice(addresses[:2]), port)
        time.sleep(dice.random() * 0.02)


def talk(seed, port, threads, count, addresses):
    workers = [threading.Thread(target=work, args=(seed * 100 + n, port, count, addresses), daemon=True) for n in range(threads)]
    for worker in workers:
        worker.start()
    say('ready')
    for worker in workers:
        # This thread handles signals, between its calls.
        while worker.is_alive():
            worker.join(0.1)
    say('idle')
    if not count:
        while True:
            time.sleep(60)


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
signal.signal(signal.SIGUSR1, lambda *_: over.set())
if sys.argv[1] == 'serve':
    serve(int(sys.argv[2]))
else:
    talk(*map(int, sys.argv[2:6]), sys.argv[6:])
