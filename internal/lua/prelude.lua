-- Moves a key's expiry, only ever later; a key that has none gets one. Being a PEXPIRE, it is accepted when Redis is
-- out of memory, and whatever the script writes after it is accepted with it.
local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end

local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Tells, as 1 or 0, whether a holder has a lock of a batch. A key that became something else is a lost lock: the rest of
-- the batch must not suffer for it. Any other error is returned.
local function holds(lock, holder)
  local held = redis.pcall('HEXISTS', lock, holder)
  if type(held) == 'table' and string.find(held.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  return held
end

-- Remembers, for as many ms, that a number was given up; with 0 it does nothing. Now and then it forgets those whose time
-- is over: the whole would else grow for as long as there is always one to remember.
local function abandon(key, number, memory)
  memory = tonumber(memory)
  if memory == 0 then
    return
  end
  local now = milliseconds()
  redis.call('HSET', key, number, string.format('%.0f', now + memory))
  extend(key, memory)
  if redis.call('HLEN', key) % 128 == 0 then
    local all = redis.call('HGETALL', key)
    for i = 1, #all, 2 do
      if tonumber(all[i + 1]) < now then
        redis.call('HDEL', key, all[i])
      end
    end
  end
end

-- Makes a lock of these fields. A lock without a lease would outlive everybody, so one that cannot be given its lease is
-- taken back: then the error is returned, else nil.
local function create(key, lease, ...)
  redis.call('HSET', key, ...)
  local leased = redis.pcall('PEXPIRE', key, lease)
  if type(leased) == 'table' and leased.err then
    redis.call('DEL', key)
    return leased
  end
end

-- What an acquire answers that is refused because the key exists: -1 less the milliseconds that the lease still runs.
--
-- Neither rlock nor Redisson leaves a lock without a lease: a hash that looks like one of theirs is mended, so that it
-- frees itself; anything else is somebody's data. 30 s is Redisson's default lease; a live holder renews its own.
local function refused(key, lease)
  local ttl = redis.call('PTTL', key)
  if ttl < 0 then
    local fields = redis.call('HLEN', key) == 1 and redis.call('HGETALL', key) or {}
    if redis.call('HEXISTS', key, 'mode') == 1
      or (fields[1] and string.match(fields[1], '^%x+%-%x+%-%x+%-%x+%-%x+:%-?%d+$')) then
      ttl = math.max(30000, tonumber(lease))
      redis.call('PEXPIRE', key, ttl)
    else
      ttl = 86400000
    end
  end
  return -1 - ttl
end

-- Publishes a message: by PUBLISH, by SPUBLISH, which do not reach each other's waiters, or by BOTH. A user who may not
-- publish has done his part all the same; waiters then find out by polling. Returns how many received it, as far as this
-- server knows.
local function announce(publish, channel, message)
  local receivers = 0
  for _, command in ipairs(publish == 'BOTH' and {'SPUBLISH', 'PUBLISH'} or {publish}) do
    local answer = redis.pcall(command, channel, message)
    if type(answer) == 'number' then
      receivers = receivers + answer
    end
  end
  return receivers
end
