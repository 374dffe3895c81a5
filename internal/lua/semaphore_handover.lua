-- Gives the permits of a holder to another one that wants as many. A repeated call returns the same. A semaphore that was given
-- fewer permits takes these back first, so nothing is handed over then.
--
-- KEYS[1] semaphore  a string: how many permits are free
-- KEYS[2] leases     zset: id of a permit that is out -> Unix ms when its lease ends
-- KEYS[3] tombstones hash: number -> Unix ms
-- KEYS[4] line       zset: waiter -> Unix us of its arrival; absent if the client knows of no line
-- ARGV[1] next       the holder that gets the permits, and after a further colon how many they are, if more than one
-- ARGV[2] lease      ms, of the next holder
-- ARGV[3] number     of the next holder
-- ARGV[4] channel
-- ARGV[5] publish    PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[6] last       the id of the last one of the permits that are given up
-- ARGV[7] id         of the last one of the next holder's permits
-- returns how many permits are free when given, plus 2^32 if others stand in the line, and 2^33 if somebody listens who knows of
-- no line; -2 when nothing was done: the last holder has to give its permits back
-- keeps rules A.1, A.6, E.2
-- for semaphore

local free, added, removed = redis.call('GET', KEYS[1]), nil, nil
if KEYS[4] and string.sub(ARGV[7], 15) == '\0\0' and free and string.find(free, '^%d%d?%d?%d?$')
  and redis.call('HEXISTS', KEYS[3], ARGV[3]) == 0 then -- written out: it is one, and nobody waits
  redis.call('ZREM', KEYS[2], '') -- see below
  local time = redis.call('TIME')
  local ends = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2]
  added = redis.call('ZADD', KEYS[2], 'NX', string.format('%.0f', ends), ARGV[7])
  removed = added == 1 and redis.call('ZREM', KEYS[2], ARGV[6]) or 0
  if removed == 1 and redis.call('EXISTS', KEYS[4]) == 0 then
    return tonumber(free) + (listeners(ARGV[5], ARGV[4]) > 0 and OthersListen or 0)
  end
end

-- functions
local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
elseif not value or value < 0 or not added and redis.call('HEXISTS', KEYS[3], ARGV[3]) == 1 then
  return -2
end
local mine, theirs = idsOf(ARGV[7]), idsOf(ARGV[6])
if not added then
  redis.call('ZREM', KEYS[2], '') -- Redis then accepts the rest even when it is out of memory; and this fails if the other ZREM would
  added = redis.call('ZADD', KEYS[2], 'NX', scored(mine, string.format('%.0f', milliseconds() + ARGV[2])))
  removed = added == #mine and redis.call('ZREM', KEYS[2], unpack(theirs)) or 0
end
if removed < #mine and (added > 0 or out(KEYS[2], theirs) ~= 0) then
  if added > 0 then -- the next one has some of its own, or others have taken back some of the last one's
    redis.call('ZREM', KEYS[2], unpack(mine))
    redis.call('INCRBY', KEYS[1], #mine - added + removed)
  end
  return -2
end
if not KEYS[4] or redis.call('EXISTS', KEYS[4]) == 0 then
  return value + (listeners(ARGV[5], ARGV[4]) > 0 and OthersListen or 0)
end

-- functions
return makeWay(KEYS[1], KEYS[4], KEYS[2], ARGV[1], value, ARGV[5], ARGV[4])
