# Stores values of many sizes over several connections, and gets all of them by one request; a
# small one also by datagrams.
import random, socket, struct, sys, threading

where = (sys.argv[1], int(sys.argv[2]))

def talk(number, results):
    dice = random.Random(number)
    with socket.create_connection(where, timeout=20) as s:
        answers = s.makefile('rb')
        values = {}
        for n in range(40):
            key = b'%d-%d' % (number, n)
            values[key] = dice.randbytes(dice.choice([0, 1, 100, 1400, 20_000, 90_000]))
            s.sendall(b'set %s 0 0 %d\r\n%s\r\n' % (key, len(values[key]), values[key]))
            assert answers.readline() == b'STORED\r\n'
        s.sendall(b'get %s\r\n' % b' '.join(values))
        for key, value in values.items():
            assert answers.readline() == b'VALUE %s 0 %d\r\n' % (key, len(value))
            assert answers.read(len(value) + 2) == value + b'\r\n'
        assert answers.readline() == b'END\r\n'
    # Each datagram begins with request number, sequence number, count and a reserved field; lost
    # requests are repeated.
    small = next((key, value) for key, value in values.items() if len(value) == 100)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(where)
        s.settimeout(0.5)
        for n in range(100):
            frame = struct.pack('!4H', n, 0, 1, 0)
            for _ in range(10):
                s.send(frame + b'get %s\r\n' % small[0])
                try:
                    # A repeated request may be answered twice.
                    while (answer := s.recv(2000))[:2] != frame[:2]: pass
                    break
                except TimeoutError:
                    pass
            assert answer == frame + b'VALUE %s 0 100\r\n%s\r\nEND\r\n' % small
    results[number] = True

results = {}
threads = [threading.Thread(target=talk, args=(n, results)) for n in range(6)]
[t.start() for t in threads]
[t.join() for t in threads]
assert len(results) == 6, results
print('all came back')
