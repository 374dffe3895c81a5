-- 39729e54df64f948e2f7603c5ed8b184b9f8a770 lock_release
-- Generated from ../lock_release.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Frees the lock, whatever its count is, and announces the release if there is a channel. Read holds of the owner of a write lock
-- remain, and then the lock is one for readers.
--
-- KEYS[1] lock       hash: holder -> count; a read-write lock also has a mode
-- KEYS[2] tombstones hash: number -> Unix ms; only if a tombstone is to be written
-- ARGV[1] holder
-- ARGV[2] lifetime   ms of the number's tombstone; 0 (no tombstone) when every command with this number got a reply
-- ARGV[3] number     of the holder
-- ARGV[4] channel    empty means none
-- ARGV[5] publish    PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- returns 1 plus the number of listeners to the channel when freed, 0 when not held
-- keeps rules A.1, A.5, A.6, G.3, G.4
-- for lock, fenced, spin, write, fenced write

local freed = redis.pcall('HDEL', KEYS[1], ARGV[1])
if ARGV[2] == '0' and (freed ~= 1 or ARGV[4] == '') then
  return freed
end
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
local function hearers(publish, channel)
  return redis.call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)[2]
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
local function leaveWrite(lock, number)
  local size = redis.call('HLEN', lock)
  local left = size > 1 and longest(lock, size, redis.call('PTTL', lock), number) or 0
  if left > 0 then
    redis.call('HSET', lock, 'mode', 'read')
    redis.call('PEXPIRE', lock, left)
  else
    redis.call('DEL', lock)
  end
  return left
end
local function announceFree(publish, channel, side)
  if side == 'write' then
    announce(publish, channel, '1')
  end
  return announce(publish, channel, '0')
end
if freed == 1 and ARGV[4] ~= '' then
  local side = string.sub(ARGV[1], -6) == ':write' and 'write' or nil
  if side then
    leaveWrite(KEYS[1], ARGV[3])
  end
  local receivers = announceFree(ARGV[5], ARGV[4], side)
  freed = 1 + (receivers > 0 and hearers(ARGV[5], ARGV[4]) or receivers)
end
abandon(KEYS[2], ARGV[3], ARGV[2])
return freed
