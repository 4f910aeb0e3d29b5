"""Runs test modules of the interpreter's own suite and prints the outcome of each case:
`cases.py TESTS OWN MIRROR OWN6 MIRROR6 MODULE...`.

The tests connect to themselves over the loopback interface. Here, binding to a loopback address
binds to this host's own address. Connecting to one goes to another address, from which a mirror
sends the packets back. In addresses that calls return, loopback addresses replace both. So the
tests' traffic crosses the network twice.
"""
import signal, socket, sys, unittest

tests, own4, mirror4, own6, mirror6, *modules = sys.argv[1:]
LOOPBACK = {socket.AF_INET: '127.0.0.1', socket.AF_INET6: '::1'}
OWN = {socket.AF_INET: own4, socket.AF_INET6: own6}
MIRROR = {socket.AF_INET: mirror4, socket.AF_INET6: mirror6}
# The timeout of a case, in seconds.
TIMEOUT = 20

base = socket.socket.__mro__[1]

def swapped(sock, address, to, also=()):
    """The address to bind or to reach instead of one that a test passes."""
    if sock.family not in LOOPBACK or not isinstance(address, tuple) or not address:
        return address
    if address[0] in (LOOPBACK[sock.family], 'localhost', *also):
        return (to[sock.family], *address[1:])
    return address

def told(sock, address):
    """A returned address as the test expects it."""
    if sock.family in LOOPBACK and isinstance(address, tuple) and address[0] in (OWN[sock.family], MIRROR[sock.family]):
        return (LOOPBACK[sock.family], *address[1:])
    return address

def reached(sock, address):
    return swapped(sock, address, MIRROR, ('', '0.0.0.0', '::', OWN.get(sock.family)))

def bind(self, address, *more):
    return base.bind(self, swapped(self, address, OWN), *more)

def connect(self, address, *more):
    return base.connect(self, reached(self, address), *more)

def connect_ex(self, address, *more):
    return base.connect_ex(self, reached(self, address), *more)

def sendto(self, data, *more):
    return base.sendto(self, data, *more[:-1], reached(self, more[-1])) if more else base.sendto(self, data)

def sendmsg(self, buffers, *more):
    if len(more) == 3:
        more = (*more[:2], reached(self, more[2]))
    return base.sendmsg(self, buffers, *more)

def _accept(self):
    descriptor, address = base._accept(self)
    return descriptor, told(self, address)

def last_told(name):
    function = getattr(base, name)
    def call(self, *arguments, **named):
        *rest, address = function(self, *arguments, **named)
        return (*rest, told(self, address))
    call.__name__ = name
    return call

def only_told(name):
    function = getattr(base, name)
    def call(self):
        return told(self, function(self))
    call.__name__ = name
    return call

for function in (bind, connect, connect_ex, sendto, sendmsg, _accept):
    setattr(socket.socket, function.__name__, function)
for name in ('recvfrom', 'recvfrom_into', 'recvmsg', 'recvmsg_into'):
    setattr(socket.socket, name, last_told(name))
for name in ('getsockname', 'getpeername'):
    setattr(socket.socket, name, only_told(name))

class Late(BaseException):
    pass

def late(*_):
    raise Late(f'longer than {TIMEOUT} s')

class Cases(unittest.TextTestResult):
    """Prints a line for each case: its outcome and its name."""
    def startTest(self, test):
        super().startTest(test)
        signal.signal(signal.SIGALRM, late)
        signal.alarm(TIMEOUT)
        self.worst = 'ok'

    def stopTest(self, test):
        signal.alarm(0)
        print(f'case {self.worst} {test.id()}', flush=True)
        super().stopTest(test)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error:
            self.worst = 'failed'

    def addError(self, test, error):
        super().addError(test, error)
        self.worst = 'failed'
        if not isinstance(test, unittest.TestCase):
            print(f'case failed {test.id()}', flush=True)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.worst = 'failed'

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.worst = 'skipped'

import test
test.__path__.append(tests)
from test import support
# Without the resources for big files and long waits, which are no subject here.
support.use_resources = ['network']
loaded = unittest.defaultTestLoader.loadTestsFromNames([f'test.{module}' for module in modules])
unittest.TextTestRunner(sys.stderr, resultclass=Cases, verbosity=0).run(loaded)
print('end', flush=True)
