-- 306b75fcef6001d38f755ea2136b4ccdde3c9026 read_release
-- Generated from ../read_release.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Ends a read hold, whatever its count is. The lock then lasts as long as its longest remaining hold. If no hold
-- remains, the lock is free. Announces a shorter lease or a free lock.
--
-- KEYS[1] lock       hash: mode -> read or write, holder -> count
-- KEYS[2] hold       a string that lives as long as this hold
-- KEYS[3] tombstones hash: number -> Unix ms; only if a tombstone is to be written
-- ARGV[1] holder
-- ARGV[2] lifetime   ms of the number's tombstone; 0 (no tombstone) when every command with this number got a reply
-- ARGV[3] number     of the holder
-- ARGV[4] channel
-- ARGV[5] publish    PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- returns 1 when ended, 0 when not held
-- keeps rules A.1, A.5, G.1, G.3, G.4
-- for read

local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end
local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
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
local function announce(publish, channel, message)
  return redis.call(publish, channel, message)
end
local function longest(lock, size, ttl, number)
  local prefix = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  local few, most, looks, cursor = size <= 17, 0, 0, '0'
  if ttl < 0 then
    ttl = 30000
  end
  if size > 200 then
    cursor = string.format('%.0f', number % 65536 * 2654435761 % 4294967296)
  end
  repeat
    local fields
    if few then
      fields = redis.call('HGETALL', lock)
    else
      local page = redis.pcall('HSCAN', lock, cursor, 'COUNT', 16)
      if page.err then
        return ttl
      end
      cursor, fields = page[1], page[2]
    end
    for i = 1, #fields, 2 do
      for entry = 1, fields[i] ~= 'mode' and math.max(tonumber(fields[i + 1]) or 0, 1) or 0 do
        if looks == 200 then
          return math.max(ttl, most)
        end
        looks = looks + 1
        local hold = prefix .. ':' .. fields[i] .. ':rwlock_timeout:' .. entry
        local left = redis.pcall('PTTL', hold)
        if type(left) == 'table' or left == -2 and type(redis.pcall('EXISTS', lock, hold)) == 'table' then
          return math.max(ttl, most)
        end
        most = math.max(most, left)
        if not few and 2 * most >= ttl then
          return math.max(ttl, most)
        end
      end
    end
  until few or cursor == '0' and size <= 200
  return most
end
local own, ttl = redis.call('PTTL', KEYS[2]), redis.call('PTTL', KEYS[1])
local freed = redis.pcall('HDEL', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[2])
local size = freed == 1 and redis.call('HGET', KEYS[1], 'mode') ~= 'write' and redis.call('HLEN', KEYS[1])
if size and (own + 100 >= ttl or size == 1 or size == 17) then
  local left = size > 1 and longest(KEYS[1], size, ttl, ARGV[3]) or 0
  if left > 0 then
    if left ~= ttl then
      redis.call('PEXPIRE', KEYS[1], left)
    end
    if left + 100 < ttl then
      announce(ARGV[5], ARGV[4], '0')
    end
  else
    redis.call('DEL', KEYS[1])
    announce(ARGV[5], ARGV[4], '0')
  end
end
abandon(KEYS[3], ARGV[3], ARGV[2])
return freed
