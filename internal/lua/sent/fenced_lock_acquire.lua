-- a22b633290e8ea7fbef8143490a918214f578d36 fenced_lock_acquire
-- Generated from ../lock_acquire.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Takes the lock if nobody holds it, and draws a token if its kind has tokens. A repeated call by the holder returns the same and
-- counts nothing. A client that knows of a line sends line_acquire.lua instead.
--
-- KEYS[1] lock       hash: holder -> count; a read-write lock also has a mode
-- KEYS[2] token      the latest token, or else the tombstones
-- KEYS[3] tombstones hash: number -> Unix ms; only if there is a token
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- returns the token or 0 when acquired; when refused, -1 minus the ms left of the present lease
-- keeps rules A.1, A.3, A.4, A.7, H, M.3
-- with tokens for fenced, fenced write

local function create(lock, lease, holder, mode)
  mode = mode or string.sub(holder, -6) == ':write' and 'write'
  if mode then
    redis.call('HSET', lock, 'mode', mode, holder, '1')
  else
    redis.call('HSET', lock, holder, '1')
  end
  local leased = redis.pcall('PEXPIRE', lock, lease)
  if type(leased) == 'table' and leased.err then
    redis.call('DEL', lock)
    return leased
  end
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
local token, tombstones = KEYS[3] and KEYS[2], KEYS[3] or KEYS[2]
local found = redis.call('EXISTS', KEYS[1], tombstones, tombstones)
if found >= 2 and redis.call('HEXISTS', tombstones, ARGV[3]) == 1 then
  return -1
end
if found % 2 == 0 then
  local drawn = token and raise(token) or 0
  return create(KEYS[1], ARGV[2], ARGV[1]) or drawn
end
local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end
local function isLock(key, client)
  local all = redis.call('HLEN', key) <= 1000 and redis.call('HGETALL', key) or {}
  for i = 1, #all, 2 do
    local holder = string.gsub(all[i], ':' .. string.rep('%x', 32) .. '$', '')
    local ending = string.match(all[i + 1], '^%d+$') and string.match(holder, '^' .. client .. ':%-?%d+(.*)$')
    if all[i] == 'mode' then
      ending = (all[i + 1] == 'read' or all[i + 1] == 'write') and ''
    end
    if ending ~= '' and ending ~= ':write' then
      return false
    end
  end
  return #all > 0
end
local function refused(key, lease)
  local ttl = redis.call('PTTL', key)
  if ttl < 0 then
    if isLock(key, redis.call('HEXISTS', key, 'mode') == 1 and '.+' or '%x+%-%x+%-%x+%-%x+%-%x+') then
      ttl = math.max(30000, tonumber(lease))
      redis.call('PEXPIRE', key, ttl)
    else
      ttl = 86400000
    end
  end
  return -1 - ttl
end
local function same(lock, key, lease)
  local token = redis.call('GET', key)
  token = token and tonumber(token) or raise(key)
  extend(lock, lease)
  return token
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  if token then
    return same(KEYS[1], token, ARGV[2])
  end
  extend(KEYS[1], ARGV[2])
  return 0
end
return refused(KEYS[1], ARGV[2])
