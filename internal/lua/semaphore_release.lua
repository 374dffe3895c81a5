-- Gives permits back, or leaves the line, and tells the waiters about free permits. Does nothing for permits that are not out any
-- more. A semaphore that is gone is not made again.
--
-- KEYS[1] semaphore  a string: how many permits are free
-- KEYS[2] leases     zset: id of a permit that is out -> Unix ms when its lease ends
-- KEYS[3] tombstones hash: number -> Unix ms; only if a tombstone is to be written, or there is a line
-- KEYS[4] line       zset: waiter -> Unix us of its arrival; absent if the client knows of no line
-- ARGV[1] holder     and after a further colon how many permits it has, if more than one
-- ARGV[2] channel
-- ARGV[3] id         of the last one of its permits
-- ARGV[4] standing   ends its member of the line; absent or empty means that it never stood there
-- ARGV[5] publish    SPUBLISH if the cluster's pub/sub is sharded, or BOTH; absent or PUBLISH otherwise
-- ARGV[6] lifetime   ms of the number's tombstone; absent or 0 (no tombstone) when every command with this number got a reply
-- returns 1 when all of its permits were out, 0 when not
-- keeps rules 2, A.1, A.5, A.6, S.1, S.4, S.9, S.12
-- for semaphore

local removed -- fails if the key is now of another type
if KEYS[4] and not ARGV[5] and string.sub(ARGV[3], 15) == '\0\0' then -- written out: it is one, and nobody waits
  removed = redis.pcall('ZREM', KEYS[2], ARGV[3])
  if removed == 1 and redis.pcall('EXISTS', KEYS[1], KEYS[1], KEYS[4]) == 2 then
    local value = redis.pcall('INCRBY', KEYS[1], '1')
    if type(value) == 'table' then
      redis.pcall('ZADD', KEYS[2], '1', ARGV[3])
      return value
    elseif value > 0 then
      redis.pcall('PUBLISH', ARGV[2], string.format('%.0f', math.min(value, 2147483647)))
    end
    return 1
  end
end

-- functions
local ids, publish, value = idsOf(ARGV[3]), ARGV[5] or 'PUBLISH', nil
removed = removed or redis.pcall('ZREM', KEYS[2], unpack(ids))
if type(removed) == 'number' and removed > 0 and redis.call('EXISTS', KEYS[1]) == 1 then
  if removed == #ids then
    value = giveBack(KEYS[1], KEYS[2], ids)
  else
    value = redis.pcall('INCRBY', KEYS[1], removed)
  end
end
local line = KEYS[4] and redis.pcall('EXISTS', KEYS[4]) == 1
if type(value) == 'number' and not line then
  announceValue(publish, ARGV[2], value)
end
local reply = removed == #ids and 1 or 0
if type(removed) == 'table' or type(value) == 'table' then
  reply = type(value) == 'table' and value or removed
end
local able, why = pcall(abandon, KEYS[3], string.match(ARGV[1], ':(%d+)'), ARGV[6] or 0) -- last, because it may fail
if not able then
  reply = failure(why)
end
if not line then
  return reply
end

-- functions
leave(KEYS[1], KEYS[4], KEYS[2], ARGV[1], ARGV[4] or '', type(value) == 'number' and value or nil, publish, ARGV[2])
return reply
