-- Takes permits if enough are free. Permits whose leases are over are taken back if they are needed. A repeated call finds
-- its permits, takes nothing, and returns how many are left now. If some were taken back meanwhile, it starts over.
--
-- KEYS[1] semaphore  a string: how many permits are free
-- KEYS[2] leases     zset: id of a permit that is out -> Unix ms when its lease ends
-- KEYS[3] tombstones hash: number -> Unix ms
-- ARGV[1] holder     and after a further colon how many permits it wants, if more than one
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- ARGV[4] channel
-- ARGV[5] publish    PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- returns how many permits are left when acquired; -1 when the number has a tombstone; when refused {-1 minus the ms until
-- another attempt may help, 1 if the semaphore is set up or else 0}

-- The caller that used this number has given up: its late command must not take permits that nobody gives back.
if redis.call('EXISTS', KEYS[3]) == 1 and redis.call('HEXISTS', KEYS[3], ARGV[3]) == 1 then
  return -1
end
local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
elseif not value then
  return {-86400001, 0}
end
local ids, now = idsOf(ARGV[1]), milliseconds()
local score = string.format('%.0f', now + ARGV[2])
local were -- how many of the permits this holder had already
if value >= #ids then
  local added = redis.call('ZADD', KEYS[2], 'NX', scored(ids, score)) -- first, because it may fail
  if added == #ids then
    return take(KEYS[1], KEYS[2], ids)
  end
  were = #ids - added
end

-- functions
were = were or out(KEYS[2], ids)
if type(were) == 'table' then
  return were
elseif were == #ids then
  lengthen(KEYS[2], ids, score)
  return math.max(value, 0) -- it may be negative, after fewer permits were set
elseif were > 0 then -- others have taken back the rest
  redis.call('ZREM', KEYS[2], unpack(ids))
  value = redis.call('INCRBY', KEYS[1], were)
end
local reclaimed = reclaim(KEYS[1], KEYS[2], now)
if type(reclaimed) == 'table' then
  return reclaimed
end
value = value + reclaimed
if value >= #ids then
  redis.call('ZADD', KEYS[2], scored(ids, score))
  value = take(KEYS[1], KEYS[2], ids)
  if reclaimed > 0 and type(value) == 'number' then
    announceValue(ARGV[5], ARGV[4], value)
  end
  return value
end
if reclaimed > 0 then
  announceValue(ARGV[5], ARGV[4], value)
end
local next = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
return {-1 - math.min((tonumber(next) or 1e15) - now, 86400000), 1}
