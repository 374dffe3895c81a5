-- 93cc9ebeaaaf704ae7cbfe6a7306858d90e0a210 read_acquire
-- Generated from ../read_acquire.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Takes the read lock unless another owner holds the write lock. A repeated call by the holder counts nothing.
--
-- KEYS[1] lock       hash: mode -> read or write, holder -> count
-- KEYS[2] hold       a string that lives as long as this hold
-- KEYS[3] tombstones hash: number -> Unix ms
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- ARGV[7] writer     the field with which the same owner holds the write lock; empty if it does not
-- returns 0 when acquired; when refused, -1 minus the ms left of the present lease
-- keeps rules A.1, A.3, A.4, A.7, G.1
-- for read

local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end
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
if redis.call('HEXISTS', KEYS[3], ARGV[3]) == 1 then
  return -1
end
local mode = redis.call('HGET', KEYS[1], 'mode')
if mode == 'read' or (mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[7]) == 1)
  or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('SET', KEYS[2], 1, 'PX', math.max(redis.call('PTTL', KEYS[2]), tonumber(ARGV[2])))
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    redis.call('HSET', KEYS[1], ARGV[1], 1)
  end
  extend(KEYS[1], ARGV[2])
  return 0
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  return refused(KEYS[1], ARGV[2])
end
redis.call('SET', KEYS[2], 1, 'PX', ARGV[2])
return create(KEYS[1], ARGV[2], ARGV[1], 'read') or 0
