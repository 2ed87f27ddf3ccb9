// A raw TCP server that answers every request with one of two precomputed
// responses, as the program of 2012 did: past node's http module, with node's
// sockets. What it does is what a correct answer takes, and no more.
//
//     node raw.js PORT

'use strict';

const net = require('node:net');

const PORT = Number(process.argv[2]);
// As tared's. A head that is longer ends its connection.
const HEAD_BYTES_MAX = 16 * 1024;
const HEAD_END = '\r\n\r\n';

// Two responses, rendered before anybody asks. Date moves, as it must; once a
// second is cheap enough not to be seen.
let kept;
let closed;

function render() {
  const response = (connection) =>
    Buffer.from(
      'HTTP/1.1 200 OK\r\n' +
        'Server: raw-baseline\r\n' +
        `Date: ${new Date().toUTCString()}\r\n` +
        'Content-Type: text/html\r\n' +
        'Content-Length: 0\r\n' +
        'Last-Modified: Sun, 01 Jan 2012 00:00:00 GMT\r\n' +
        `Connection: ${connection}\r\n` +
        'Accept-Ranges: bytes\r\n\r\n',
      'latin1',
    );
  kept = response('keep-alive');
  closed = response('close');
}

render();
setInterval(render, 1000);

// What ends a request, and whether the connection goes on, is all that is parsed.
// A body would be taken for the next request, so who announces one is not
// answered.
function plan(head) {
  const line = head.slice(0, head.indexOf('\r\n'));
  const version = /^(?:GET|HEAD) \S+ HTTP\/1\.([01])$/.exec(line);
  if (version === null || /\r\n(?:content-length|transfer-encoding):/i.test(head)) return null;
  const connection = /\r\nconnection: *([^\r]*)/i.exec(head);
  const said = connection === null ? '' : connection[1].toLowerCase();
  return version[1] === '1' ? said !== 'close' : said === 'keep-alive';
}

const server = net.createServer({ noDelay: true }, (socket) => {
  // What came and was not a whole head yet: heads are split at any byte.
  let pending = '';
  socket.on('data', (bytes) => {
    pending += bytes.latin1Slice();
    let end;
    // Several may have come at once.
    while ((end = pending.indexOf(HEAD_END)) >= 0) {
      const keeps = plan(pending.slice(0, end + HEAD_END.length));
      pending = pending.slice(end + HEAD_END.length);
      if (keeps === null) return socket.destroy();
      if (!keeps) return socket.end(closed);
      socket.write(kept);
    }
    if (pending.length > HEAD_BYTES_MAX) socket.destroy();
  });
  // A client that went away is its own affair.
  socket.on('error', () => socket.destroy());
});

server.listen({ port: PORT, host: '127.0.0.1', backlog: 4096 });
