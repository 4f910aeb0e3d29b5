// An echo by HTTP: `serve ADDRESS PORT`, `ask ADDRESS PORT`. Many requests, by 50 connections that are kept and by as many that are not.
const http = require('http');
const { randomBytes } = require('crypto');

const [role, host, port] = process.argv.slice(2);

function ask(agent, length) {
  const sent = randomBytes(length);
  return new Promise((resolve, reject) => {
    const request = http.request({ host, port, agent, method: 'POST', timeout: 20000 }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('error', reject);
      response.on('end', () => {
        if (Buffer.concat(parts).equals(sent)) resolve();
        else reject(new Error(`${length} bytes came back changed`));
      });
    });
    request.on('error', reject);
    request.on('timeout', () => request.destroy(new Error('no answer')));
    // In two parts, the second of which is sent by a later turn of the loop.
    request.write(sent.subarray(0, length / 2));
    setImmediate(() => request.end(sent.subarray(length / 2)));
  });
}

async function main() {
  const lengths = [0, 1, 1000, 10000, 60000];
  const kept = new http.Agent({ keepAlive: true, maxSockets: 50 });
  for (const [agent, count] of [[kept, 400], [new http.Agent(), 50]]) {
    await Promise.all(Array.from({ length: count }, (_, n) => ask(agent, lengths[n % lengths.length])));
  }
  kept.destroy();
  console.log('all came back');
}

if (role === 'serve') {
  http.createServer((request, response) => request.pipe(response)).listen(Number(port), host);
} else {
  main().catch((error) => {
    console.error(error);
    process.exit(1);
  });
}
