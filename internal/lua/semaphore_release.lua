-- Gives permits back, or leaves the line, and tells the waiters about free permits. Does nothing for permits that are not out any
-- more. A semaphore that is gone is not made again.
--
-- KEYS[1] semaphore  a string: how many permits are free
-- KEYS[2] leases     zset: id of a permit that is out -> Unix ms when its lease ends
-- KEYS[3] tombstones hash: number -> Unix ms; only if a tombstone is to be written, or there is a line
-- KEYS[4] line       zset: waiter -> Unix us of its arrival; absent if the client knows of no line
-- ARGV[1] holder     and after a further colon how many permits it has, if more than one
-- ARGV[2] lifetime   ms of the number's tombstone; 0 (no tombstone) when every command with this number got a reply
-- ARGV[3] number     of the holder
-- ARGV[4] channel
-- ARGV[5] publish    PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[6] standing   ends its member of the line; empty means that it never stood there
-- returns 1 when all of its permits were out, 0 when not
-- keeps rules 2, A.1, A.5, A.6, S.1, S.4, S.9, S.12
-- for semaphore

local ids = idsOf(ARGV[1])
local removed, value = redis.pcall('ZREM', KEYS[2], unpack(ids)), nil -- fails if the key is now of another type
if type(removed) == 'number' and removed > 0 and redis.call('EXISTS', KEYS[1]) == 1 then
  if removed == #ids then
    value = giveBack(KEYS[1], KEYS[2], ids)
  else
    value = redis.pcall('INCRBY', KEYS[1], removed)
  end
end
local line = KEYS[4] and redis.pcall('EXISTS', KEYS[4]) == 1
if type(value) == 'number' and not line then
  announceValue(ARGV[5], ARGV[4], value)
end
local reply = removed == #ids and 1 or 0
if type(removed) == 'table' or type(value) == 'table' then
  reply = type(value) == 'table' and value or removed
end
local able, why = pcall(abandon, KEYS[3], ARGV[3], ARGV[2]) -- last, because it may fail
if not able then
  reply = failure(why)
end
if not line then
  return reply
end

-- functions
leave(KEYS[1], KEYS[4], KEYS[2], ARGV[1], ARGV[6], type(value) == 'number' and value or nil, ARGV[5], ARGV[4])
return reply
