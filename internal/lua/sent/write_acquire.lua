-- 243c6a8ace55fcf007383e5becccd37b0b0bb4d8 write_acquire
-- Generated from ../write_acquire.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Takes the write lock if it has no writer and no reader. A repeated call by the holder returns the same and counts
-- nothing.
--
-- KEYS[1] lock       hash: mode -> read or write, holder -> count
-- KEYS[2] tombstones hash: number -> Unix ms
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- returns 0 when acquired; when refused, -1 minus the ms left of the present lease
-- for write

local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end
local function create(key, lease, ...)
  redis.call('HSET', key, ...)
  local leased = redis.pcall('PEXPIRE', key, lease)
  if type(leased) == 'table' and leased.err then
    redis.call('DEL', key)
    return leased
  end
end
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
if redis.call('HEXISTS', KEYS[2], ARGV[3]) == 1 then
  return -1
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  return create(KEYS[1], ARGV[2], 'mode', 'write', ARGV[1], 1) or 0
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  extend(KEYS[1], ARGV[2])
  return 0
end
return refused(KEYS[1], ARGV[2])
