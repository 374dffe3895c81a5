-- Moves a key's expiry, but only to a later time. A key without an expiry gets one. Redis accepts a PEXPIRE even when it
-- is out of memory, and then also accepts every later write of the script.
local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end

local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Returns 1 if a holder has a lock of a batch, and 0 if not. A key that is now of another type is a lost lock, and must
-- not harm the rest of the batch. Any other error is returned.
local function holds(lock, holder)
  local held = redis.pcall('HEXISTS', lock, holder)
  if type(held) == 'table' and string.find(held.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  return held
end

-- Removes some tombstones whose lifetime is over: all of few, and of many those of some places that the number selects. So it
-- takes Redis no longer the more there are. A failure is ignored: tombstones that stay do no harm.
local function sweep(key, number, now)
  local size = redis.pcall('HLEN', key)
  if type(size) ~= 'number' or size % 128 ~= 0 then
    return
  end
  local all
  if size <= 1024 then
    all = redis.pcall('HGETALL', key)
  else
    all = redis.pcall('HSCAN', key, string.format('%.0f', number * 2654435761 % 4294967296), 'COUNT', 300)[2] or {}
  end
  for i = 1, #all, 2 do
    if tonumber(all[i + 1]) < now then
      redis.pcall('HDEL', key, all[i])
    end
  end
end

-- Writes a tombstone for a number, with a lifetime in ms. Zero means no tombstone. Now and then it removes some tombstones
-- whose lifetime is over. Otherwise the hash would grow as long as it always has a living tombstone. The answer, if any, is
-- the text that once_prelude.lua puts behind the time.
local function abandon(key, number, memory, answer)
  memory = tonumber(memory)
  if memory == 0 then
    return
  end
  local now = milliseconds()
  redis.call('HSET', key, number, string.format('%.0f', now + memory) .. (answer or ''))
  extend(key, memory)
  sweep(key, number, now)
end

-- Creates a lock for a holder, in a mode if it is one of a read-write lock. A lock without a lease would stay forever. If PEXPIRE
-- fails, the lock is therefore deleted and the error returned; otherwise the result is nil.
local function create(lock, lease, holder, mode)
  mode = mode or string.sub(holder, -6) == WriteSuffix and WriteMode
  if mode then
    redis.call('HSET', lock, ModeField, mode, holder, '1')
  else
    redis.call('HSET', lock, holder, '1')
  end
  local leased = redis.pcall('PEXPIRE', lock, lease)
  if type(leased) == 'table' and leased.err then
    redis.call('DEL', lock)
    return leased
  end
end

-- Returns whether a hash has nothing but what a lock has: holders, and the mode of a read-write lock. client is the pattern of the id of a
-- client. A transaction of Redisson puts its id behind its holders. A hash with more fields than these is not looked at.
local function isLock(key, client)
  local all = redis.call('HLEN', key) <= MostFields and redis.call('HGETALL', key) or {}
  for i = 1, #all, 2 do
    local holder = string.gsub(all[i], ':' .. string.rep('%x', 32) .. '$', '')
    local ending = string.match(all[i + 1], '^%d+$') and string.match(holder, '^' .. client .. ':%-?%d+(.*)$')
    if all[i] == ModeField then
      ending = (all[i + 1] == ReadMode or all[i + 1] == WriteMode) and ''
    end
    if ending ~= '' and ending ~= WriteSuffix then
      return false
    end
  end
  return #all > 0
end

-- Returns the reply to an acquire that is refused because the key exists: -1 minus the ms left of the lease.
--
-- Neither rlock nor Redisson leaves a lock without a lease. A hash that looks like one of their locks but has no lease
-- gets one, so that it frees itself. Any other key is foreign data and stays as it is. Without a mode, only the id that clients
-- have by default tells that it is a lock. The lease is at least 30 s, Redisson's default; a living holder renews its own.
local function refused(key, lease)
  local ttl = redis.call('PTTL', key)
  if ttl < 0 then
    if isLock(key, redis.call('HEXISTS', key, ModeField) == 1 and '.+' or '%x+%-%x+%-%x+%-%x+%-%x+') then
      ttl = math.max(30000, tonumber(lease))
      redis.call('PEXPIRE', key, ttl)
    else
      ttl = 86400000
    end
  end
  return -1 - ttl
end

-- Returns whether a lock has a holder that is not among these, which line breaks separate. An empty text allows any.
local function heldByOthers(lock, holders)
  local allowed, count = {}, 0
  for holder in string.gmatch(holders, '[^\n]+') do
    allowed[holder], count = true, count + 1
  end
  if count == 0 or redis.call('HLEN', lock) > count + 1 then -- a read-write lock also has a mode
    return count > 0
  end
  local fields = redis.call('HGETALL', lock) -- for HKEYS, a user would need one more right
  for i = 1, #fields, 2 do
    if fields[i] ~= ModeField and not allowed[fields[i]] then
      return true
    end
  end
  return false
end

-- Frees a lock from any holder, and returns whether it did. A lock with a mode is freed only from that side. holders are those of
-- heldByOthers. HLEN fails on a key of another type, which DEL would destroy. A hash that is no lock stays, too.
local function forced(lock, side, holders)
  local large = redis.call('HLEN', lock) > MostFields -- of locks, only those with readers have many fields
  if not (large and redis.call('HEXISTS', lock, ModeField) == 1 or isLock(lock, '.+')) or heldByOthers(lock, holders)
    or (side == ReadMode or side == WriteMode) and redis.call('HGET', lock, ModeField) ~= side then
    return false
  end
  redis.call('DEL', lock)
  return true
end

-- Returns how many subscribe to a channel here, by its name. PUBLISH and SPUBLISH do not say that: they count whoever watches all
-- channels, too.
local function hearers(publish, channel)
  return redis.call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)[2]
end

-- Publishes a message by PUBLISH or by SPUBLISH; neither command reaches the waiters of the other. Returns how many
-- listeners received the message, as far as this server knows.
local function announce(publish, channel, message)
  return redis.call(publish, channel, message)
end
