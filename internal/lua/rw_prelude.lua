-- Returns how long the longest read hold of a lock still runs, in ms. Zero means that there is none. A hold whose key is
-- gone is over, even if its field still exists. Redisson has one key per acquisition of a holder, rlock has one for all.
local function longest(lock)
  local prefix = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  local most, fields = 0, redis.call('HGETALL', lock)
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' then
      for entry = 1, tonumber(fields[i + 1]) or 0 do
        local ttl = redis.pcall('PTTL', prefix .. ':' .. fields[i] .. ':rwlock_timeout:' .. entry)
        if type(ttl) == 'table' then
          return redis.call('PTTL', lock) -- while a slot moves, a cluster does not answer whether a key is gone
        end
        most = math.max(most, ttl)
      end
    end
  end
  return most
end

-- Wakes every waiter after the writer has left, because readers and writers may now try. In a Java process, a 1 wakes
-- every sleeping thread, but a thread that has subscribed and does not sleep yet misses it. A 0 wakes one thread, and is
-- kept until that thread sleeps.
local function announceWriter(publish, channel)
  announce(publish, channel, '1')
  return announce(publish, channel, '0')
end
