// The npm package http-proxy in front of one upstream.
//
//     node proxy.js PORT UPSTREAM_PORT keep|close PATH_OF_HTTP_PROXY

'use strict';

const http = require('node:http');

const [PORT, UPSTREAM_PORT] = process.argv.slice(2, 4).map(Number);
const KEEPS = process.argv[4] === 'keep';
// Named by its place: it is not installed beside this file.
const httpProxy = require(process.argv[5]);

const proxy = httpProxy.createProxyServer({
  target: `http://127.0.0.1:${UPSTREAM_PORT}`,
  // By default it opens a connection for each request. With an agent it keeps as
  // many as there are requests at a time, as nginx and HAProxy do.
  agent: KEEPS ? new http.Agent({ keepAlive: true }) : undefined,
});

// The default is to end the process.
proxy.on('error', (_error, _request, response) => {
  response.writeHead(502);
  response.end();
});

const server = http.createServer((request, response) => proxy.web(request, response));
// Longer than any run.
server.keepAliveTimeout = 3600e3;
server.listen({ port: PORT, host: '127.0.0.1', backlog: 4096 });
