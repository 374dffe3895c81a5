-- e842bd8c01e5adeb8993e7a61997ce7b1b5509a7 fenced_acquire
-- Generated from ../fenced_acquire.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Takes the lock if nobody holds it, with a token greater than all earlier ones. A repeated call by the holder returns
-- the same token and counts nothing.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] token      the latest token
-- KEYS[3] tombstones hash: number -> Unix ms
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- returns the token when acquired; when refused, -1 minus the ms left of the present lease
-- with tokens for fenced

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
local function raise(key)
  local time = redis.call('TIME')
  local token = redis.call('INCR', key)
  local now = time[1] * 1000000 + time[2]
  if token < now then
    token = now
    redis.call('SET', key, string.format('%.0f', token))
  end
  return token
end
local function same(lock, key, lease)
  local token = redis.call('GET', key)
  token = token and tonumber(token) or raise(key)
  extend(lock, lease)
  return token
end
if redis.call('HEXISTS', KEYS[3], ARGV[3]) == 1 then
  return -1
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return same(KEYS[1], KEYS[2], ARGV[2])
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  return refused(KEYS[1], ARGV[2])
end
local token = raise(KEYS[2])
return create(KEYS[1], ARGV[2], ARGV[1], 1) or token
