// Node's event loop with the package ws: WebSocket echo.
const { WebSocket, WebSocketServer } = require('ws');

const SIZE = 64;
const WARM_UP_MS = 250;
const [role, address, port, seconds] = process.argv.slice(2);

function serve() {
  const server = new WebSocketServer({ host: address, port: Number(port) });
  server.on('connection', (socket) => socket.on('message', (data) => socket.send(data)));
}

function ask() {
  const socket = new WebSocket(`ws://${address}:${port}`);
  const message = Buffer.alloc(SIZE);
  const taken = [];
  let began, sent;
  const send = () => {
    sent = performance.now();
    socket.send(message);
  };
  socket.on('error', (error) => {
    console.error(error.message);
    process.exit(1);
  });
  socket.on('open', () => {
    began = performance.now() + WARM_UP_MS;
    send();
  });
  socket.on('message', () => {
    const now = performance.now();
    if (now >= began) taken.push((now - sent) * 1e3);
    if (now >= began + Number(seconds) * 1e3) return report(taken);
    send();
  });
}

function report(taken) {
  taken.sort((a, b) => a - b);
  const [p50, p99] = [50, 99].map((percent) => taken[Math.floor((taken.length * percent) / 100)]);
  console.log(`trips=${taken.length} p50_us=${p50.toFixed(2)} p99_us=${p99.toFixed(2)}`);
  process.exit(0);
}

role === 'serve' ? serve() : ask();
