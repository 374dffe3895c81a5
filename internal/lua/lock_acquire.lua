-- Takes the lock if nobody holds it; asked again by the field that holds it, it answers the same and counts nothing.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] abandoned  hash: number -> 1
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- returns 0 when acquired; when refused, -1 less the milliseconds that the present lease still runs

-- Whoever gave this number up is gone: a command of it that comes late must not create a holder that nobody releases.
if redis.call('HEXISTS', KEYS[2], ARGV[3]) == 1 then
  return -1
end

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  extend(KEYS[1], ARGV[2])
  return 0
end

if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], ARGV[1], 1)
  -- A lock without a lease would outlive everybody, so one that cannot be given a lease is taken back.
  local leased = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if type(leased) == 'table' and leased.err then
    redis.call('DEL', KEYS[1])
    return leased
  end
  return 0
end

local ttl = redis.call('PTTL', KEYS[1])
if ttl < 0 then
  -- Neither rlock nor Redisson leaves a lock without a lease: a hash that looks like one of theirs is mended, so that
  -- it frees itself; anything else is somebody's data. 30 s is Redisson's default lease; a live holder renews its own.
  local fields = redis.call('HLEN', KEYS[1]) == 1 and redis.call('HKEYS', KEYS[1]) or {}
  if redis.call('HEXISTS', KEYS[1], 'mode') == 1
    or (fields[1] and string.match(fields[1], '^%x+%-%x+%-%x+%-%x+%-%x+:%-?%d+$')) then
    ttl = math.max(30000, tonumber(ARGV[2]))
    redis.call('PEXPIRE', KEYS[1], ttl)
  else
    ttl = 86400000
  end
end
return -1 - ttl
