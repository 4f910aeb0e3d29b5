# Requests with replies, a stream of messages, and a subscription.
import hashlib, os, sys, zmq

address, port = sys.argv[1], int(sys.argv[2])
context = zmq.Context()
context.setsockopt(zmq.RCVTIMEO, 20_000)
context.setsockopt(zmq.SNDTIMEO, 20_000)
asking, pushing, hearing = (context.socket(kind) for kind in (zmq.REQ, zmq.PUSH, zmq.SUB))
for n, socket in enumerate((asking, pushing, hearing)):
    socket.connect(f'tcp://{address}:{port + n}')

for n in range(200):
    parts = [b'%d' % n, os.urandom([0, 1, 300, 9000, 120_000][n % 5])]
    asking.send_multipart(parts)
    assert asking.recv_multipart() == parts[::-1]

digest = hashlib.sha256()
for n in range(3000):
    message = b'%d' % n * (n % 200)
    digest.update(message)
    pushing.send(message)
while True:
    asking.send(b'what was pushed?')
    count, found = asking.recv_multipart()
    if int(count) == 3000:
        break
assert found == digest.digest()

hearing.subscribe(b'news')
asking.send(b'publish')
for n in range(1000):
    assert hearing.recv_multipart() == [b'news', b'%d' % n]
assert asking.recv() == b'published'
context.destroy(linger=0)
print('all came')
