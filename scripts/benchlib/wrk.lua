-- For wrk: the depth of the pipeline as an argument, and a line of exact figures
-- in place of the rounded ones. Without a depth above 1 nothing here runs while
-- wrk measures.

function init(arguments)
   local depth = tonumber(arguments[1])
   if depth > 1 then
      local batch = string.rep(wrk.format(), depth)
      request = function() return batch end
   end
end

function done(summary, latency, _requests)
   local errors = summary.errors
   io.write(string.format(
      "exactly requests=%d bytes=%d duration_us=%d connect=%d read=%d write=%d status=%d timeout=%d "
      .. "p50_us=%d p99_us=%d max_us=%d\n",
      summary.requests, summary.bytes, summary.duration,
      errors.connect, errors.read, errors.write, errors.status, errors.timeout,
      latency:percentile(50), latency:percentile(99), latency.max))
end
