-- How long the longest read hold of a lock still runs, in ms; 0 when there is none. A hold whose key is gone is over,
-- though its field is still there. Redisson has a key for each entry of a holder, rlock one for all of them.
local function longest(lock)
  local prefix = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  local most, fields = 0, redis.call('HGETALL', lock)
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' then
      for entry = 1, tonumber(fields[i + 1]) or 0 do
        local ttl = redis.pcall('PTTL', prefix .. ':' .. fields[i] .. ':rwlock_timeout:' .. entry)
        if type(ttl) == 'table' then
          return redis.call('PTTL', lock) -- a slot on the move: a cluster does not say whether a key is gone
        end
        most = math.max(most, ttl)
      end
    end
  end
  return most
end

-- Tells every waiter that the writer is gone: readers and writers alike may try. Of a Java process a 1 wakes every thread
-- that sleeps, and none that has subscribed and is about to; a 0 wakes one, and is kept for it.
local function announceWriter(publish, channel)
  announce(publish, channel, '1')
  return announce(publish, channel, '0')
end
