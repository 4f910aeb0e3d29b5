# Answers requests; counts pushed messages; publishes once a client has subscribed. Ends after the
# last of these.
import hashlib, sys, zmq

address, port = sys.argv[1], int(sys.argv[2])
context = zmq.Context()
# A publisher drops messages that exceed its queue.
context.setsockopt(zmq.SNDHWM, 0)
sockets = [context.socket(kind) for kind in (zmq.REP, zmq.PULL, zmq.XPUB)]
for n, socket in enumerate(sockets):
    socket.bind(f'tcp://{address}:{port + n}')
answering, pulling, publishing = sockets

poller = zmq.Poller()
poller.register(answering, zmq.POLLIN)
poller.register(pulling, zmq.POLLIN)
pushed, digest = 0, hashlib.sha256()
while True:
    ready = dict(poller.poll())
    if pulling in ready:
        digest.update(pulling.recv())
        pushed += 1
    elif answering in ready:
        parts = answering.recv_multipart()
        if parts == [b'what was pushed?']:
            answering.send_multipart([b'%d' % pushed, digest.digest()])
        elif parts == [b'publish']:
            assert publishing.recv() == b'\x01news'
            for n in range(1000):
                publishing.send_multipart([b'news', b'%d' % n])
            answering.send(b'published')
            break
        else:
            answering.send_multipart(parts[::-1])
context.destroy(linger=10_000)
