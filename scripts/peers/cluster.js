// A cluster of processes that answer with one file from memory, and with the
// same compressed once to those who take gzip. The comparison of 2013 sent gzip
// to everybody, asked or not.
//
//     node cluster.js PORT WORKERS FILE

'use strict';

const cluster = require('node:cluster');
const fs = require('node:fs');
const http = require('node:http');
const zlib = require('node:zlib');

const [PORT, WORKERS] = process.argv.slice(2, 4).map(Number);
const FILE = process.argv[4];

if (cluster.isPrimary) {
  // They listen together, once the last one is there: bench takes the first that
  // listens for all.
  let online = 0;
  for (let count = 0; count < WORKERS; count += 1) cluster.fork();
  cluster.on('message', () => {
    online += 1;
    if (online === WORKERS) for (const worker of Object.values(cluster.workers)) worker.send('listen');
  });
} else {
  const plain = fs.readFileSync(FILE);
  // Once, so it may take its time.
  const compressed = zlib.gzipSync(plain, { level: 9 });
  // The head of 2013, and what tells caches that there are two of it.
  const head = {
    'Content-Type': 'text/html',
    'Last-Modified': fs.statSync(FILE).mtime.toUTCString(),
    'Cache-Control': 'public, max-age=2592000, must-revalidate',
    Vary: 'Accept-Encoding',
  };
  const plainHead = { ...head, 'Content-Length': plain.length };
  const compressedHead = { ...head, 'Content-Length': compressed.length, 'Content-Encoding': 'gzip' };
  const server = http.createServer((request, response) => {
    const takesGzip = /\bgzip\b/.test(request.headers['accept-encoding'] ?? '');
    response.writeHead(200, takesGzip ? compressedHead : plainHead);
    response.end(takesGzip ? compressed : plain);
  });
  process.on('message', () => server.listen({ port: PORT, host: '127.0.0.1', backlog: 4096 }));
  process.send('ready');
}
