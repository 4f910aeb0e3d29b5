// The same as Echo.cs for JavaScript's runtimes, with the modules of Node.
//
//     echo.js server ADDRESS PORT
//     echo.js client ADDRESS PORT ROUND_TRIPS BYTES
//
// It prints by fs.writeSync: under Wine a pipe of Linux is no standard output for libuv.

const dgram = require("dgram");
const fs = require("fs");
const net = require("net");

const [role, address, port, roundTrips, bytes] = process.argv.slice(2);
const say = (text) => fs.writeSync(1, text + "\n");

function fail(error) {
  say("failed: " + (error.stack || error));
  process.exit(1);
}
process.on("uncaughtException", fail);
process.on("unhandledRejection", fail);

function pattern(count, seed) {
  const data = Buffer.alloc(count);
  for (let place = 0; place < count; place++) data[place] = Math.floor((place * 7) / 5) + seed;
  return data;
}

function serve() {
  const udp = dgram.createSocket("udp4");
  udp.on("message", (data, peer) => udp.send(data, peer.port, peer.address));
  const tcp = net.createServer({ allowHalfOpen: true, noDelay: true }, (peer) => {
    peer.on("error", () => peer.destroy());
    peer.pipe(peer);
  });
  udp.bind(Number(port), address, () => tcp.listen(Number(port), address, 100, () => say("ready")));
}

// What arrives, taken in pieces of wanted lengths.
function reader(socket) {
  let have = [];
  let length = 0;
  let wanted = null;
  const give = () => {
    if (wanted === null || length < wanted.count) return;
    const all = Buffer.concat(have);
    const { count, resolve } = wanted;
    wanted = null;
    have = [all.subarray(count)];
    length = all.length - count;
    resolve(all.subarray(0, count));
  };
  socket.on("data", (data) => {
    have.push(data);
    length += data.length;
    give();
  });
  return (count) =>
    new Promise((resolve) => {
      wanted = { count, resolve };
      give();
    });
}

function check(sent, received, what) {
  if (Buffer.compare(sent, received) !== 0) throw new Error(what + " has another answer");
}

async function ask() {
  const udp = dgram.createSocket("udp4");
  const answers = [];
  udp.on("message", (data) => answers.shift()(data));
  await new Promise((resolve) => udp.connect(Number(port), address, resolve));
  const tcp = net.connect({ host: address, port: Number(port), noDelay: true });
  await new Promise((resolve, reject) => tcp.on("connect", resolve).on("error", reject));
  const read = reader(tcp);
  const times = [];
  for (let number = 0; number < Number(roundTrips); number++) {
    const sent = pattern(64, number);
    const answered = new Promise((resolve) => answers.push(resolve));
    udp.send(sent);
    check(sent, await answered, "datagram " + number);
    const begin = process.hrtime.bigint();
    tcp.write(sent);
    const answer = await read(64);
    times.push(Number(process.hrtime.bigint() - begin) / 1000);
    check(sent, answer, "message " + number);
  }
  const data = pattern(Number(bytes), 1);
  tcp.write(data);
  check(data, await read(data.length), "the stream");
  tcp.end();
  udp.close();
  times.sort((one, other) => one - other);
  say("p50_us=" + times[Math.floor(times.length / 2)].toFixed(1));
  say("done");
}

if (role === "server") serve();
else ask();
