-- Takes permits if enough are free. Permits whose leases are over are taken back if they are needed. A repeated call finds
-- its permits, takes nothing, and returns how many are left now. If some were taken back meanwhile, it starts over.
--
-- Permits that those need who stand in the line before it are not free for it. If it is refused, it stands in the line, unless it does
-- not wait, or there is none.
--
-- KEYS[1] semaphore  a string: how many permits are free
-- KEYS[2] leases     zset: id of a permit that is out -> Unix ms when its lease ends
-- KEYS[3] tombstones hash: number -> Unix ms
-- KEYS[4] line       zset: waiter -> Unix us of its arrival; absent if the client knows of no line
-- ARGV[1] holder     and after a further colon how many permits it wants, if more than one
-- ARGV[2] lease      ms
-- ARGV[3] id         of the last one of its permits
-- ARGV[4] standing   0 or absent, which ends its member of the line; empty means that it does not wait
-- ARGV[5] publish    SPUBLISH if the cluster's pub/sub is sharded, or BOTH; absent or PUBLISH otherwise
-- ARGV[6] sets up    1 if its caller sets the semaphore up when nobody has, so that it does not wait for that; may be absent
-- returns how many permits are left when acquired; -1 when the number has a tombstone; when refused {-1 minus the ms until
-- another attempt may help, Unix us or 0, 1 if the process is asked to watch plus 2 if nobody listens to its channel here and 4 if
-- somebody does plus 8 if the semaphore is not set up, how many stand before it or -1 if it does not stand in the line}
-- keeps rules A.1, A.3, S.1, S.4, S.7, S.9, S.12
-- for semaphore

-- The caller that used this number has given up: its late command must not take permits that nobody gives back.
-- EXISTS counts a key as often as it is named: an odd number says that there is a line.
local found = KEYS[4] and redis.call('EXISTS', KEYS[3], KEYS[3], KEYS[4]) or redis.call('EXISTS', KEYS[3], KEYS[3])
if found >= 2 and redis.call('HEXISTS', KEYS[3], string.match(ARGV[1], ':(%d+)')) == 1 then
  return -1
end
local free = redis.call('GET', KEYS[1])
if found % 2 == 0 and string.sub(ARGV[3], 15) == '\0\0' and free and string.find(free, '^[1-9]%d?%d?%d?$') then -- written out: it is one
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  if redis.call('ZADD', KEYS[2], 'NX', string.format('%.0f', now + ARGV[2]), ARGV[3]) == 1 then -- first, because it may fail
    local left = redis.pcall('DECRBY', KEYS[1], '1')
    if type(left) == 'table' then
      redis.call('ZREM', KEYS[2], ARGV[3])
      return left
    end
    local ttl = redis.call('PTTL', KEYS[1])
    if ttl > 0 then
      redis.call('PEXPIRE', KEYS[2], ttl)
    end
    return left
  end
end

-- functions
local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
end
local waits, publish, base = ARGV[4] ~= '', ARGV[5] or 'PUBLISH', baseOf(SemaphoreChannel)
if not value and (not KEYS[4] or not waits or ARGV[6] == '1') then
  return {-86400001, 0, BitNotSetUp, -1}
end
local ids, micros = idsOf(ARGV[3]), microseconds()
local now = math.floor(micros / 1000)
local score = string.format('%.0f', now + ARGV[2])
local were -- how many of the permits this holder had already
if value and value >= #ids and found % 2 == 0 then
  local added = redis.call('ZADD', KEYS[2], 'NX', scored(ids, score)) -- first, because it may fail
  if added == #ids then
    return take(KEYS[1], KEYS[2], ids)
  end
  were = #ids - added
end

-- functions
local member = ARGV[1] .. '|0' -- the last question of one that stood in the line does not wait
if not value then
  return stand(KEYS[4], member, publish, base, micros, -86400001, BitNotSetUp)
end
if KEYS[4] then
  mayRemove(KEYS[4])
end
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
local enough, rest = value >= #ids, 3000
if KEYS[4] then
  enough, rest = tellFirst(KEYS[4], value, value + redis.call('ZCARD', KEYS[2]), publish, base, micros, member, waits)
end
if enough then
  redis.call('ZADD', KEYS[2], scored(ids, score))
  value = take(KEYS[1], KEYS[2], ids)
  if KEYS[4] then
    forget(KEYS[4], member)
  end
  if reclaimed > 0 and type(value) == 'number' then
    announceValue(publish, base, value)
  end
  return value
end
if reclaimed > 0 then
  announceValue(publish, base, value)
end
local next = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
local hint = -1 - math.min((tonumber(next) or 1e15) - now, value >= #ids and rest or 86400000)
if KEYS[4] and waits then
  return stand(KEYS[4], member, publish, base, micros, hint)
end
return {hint, 0, 0, -1}
