// node's http module with one answer for every request.
//
//     node http.js PORT TYPE [BODY]

'use strict';

const http = require('node:http');

const PORT = Number(process.argv[2]);
const TYPE = process.argv[3];
const BODY = Buffer.from(process.argv[4] ?? '');

const server = http.createServer((_request, response) => {
  // Content-Length is said: left to itself node would send an HTTP/1.1 client, as
  // a proxy is, chunks, and nobody else here does.
  response.writeHead(200, { 'Content-Type': TYPE, 'Content-Length': BODY.length });
  response.end(BODY);
});

// Longer than any run. After node's 5 s a proxy that keeps its connections would
// meet some that were just closed.
server.keepAliveTimeout = 3600e3;
server.listen({ port: PORT, host: '127.0.0.1', backlog: 4096 });
