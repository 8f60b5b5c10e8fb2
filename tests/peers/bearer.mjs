// Loaded before the conformance suite: it has no option for a token, so every request of its gets one here.
// Host and Origin stay as the suite wrote them, and nothing stands between it and the server.
import http from 'node:http';
import { createRequire, syncBuiltinESMExports } from 'node:module';

const { getGlobalDispatcher, setGlobalDispatcher } = createRequire(process.argv[1])('undici');
const bearer = `Bearer ${process.env.HOLDFAST_TOKEN}`;

function withBearer(headers) {
  if (headers === undefined || headers === null) return { authorization: bearer };
  if (Array.isArray(headers)) {
    return headers.length > 0 && Array.isArray(headers[0])
      ? [...headers, ['authorization', bearer]]
      : [...headers, 'authorization', bearer];
  }
  const given = typeof headers[Symbol.iterator] === 'function' ? Object.fromEntries(headers) : headers;
  return { ...given, authorization: bearer };
}

setGlobalDispatcher(
  getGlobalDispatcher().compose((dispatch) => (options, handler) =>
    dispatch({ ...options, headers: withBearer(options.headers) }, handler),
  ),
);

const request = http.request;
http.request = (...given) => {
  const made = request(...given);
  made.setHeader('authorization', bearer);
  return made;
};
syncBuiltinESMExports();
