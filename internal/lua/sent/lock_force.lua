-- a7b220fbd5fab7d403a00851ebb2de9d2b764de3 lock_force
-- Generated from ../lock_force.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Frees the lock for any holder, and announces the release if there is a channel.
--
-- KEYS[1] lock     hash: holder -> count; a read-write lock also has a mode
-- ARGV[4] channel  empty means none
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[6] side     read or write for a lock with a mode, which is freed only from that
-- ARGV[7] holders  only these may have the lock, separated by line breaks; empty means anybody
-- returns 1 when freed, 0 when nobody held it, or others
-- keeps rules G.3, P.9
-- for lock, fenced, spin, read, write, fenced write

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
local function heldByOthers(lock, holders)
  local allowed, count = {}, 0
  for holder in string.gmatch(holders, '[^\n]+') do
    allowed[holder], count = true, count + 1
  end
  if count == 0 or redis.call('HLEN', lock) > count + 1 then
    return count > 0
  end
  local fields = redis.call('HGETALL', lock)
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' and not allowed[fields[i]] then
      return true
    end
  end
  return false
end
local function forced(lock, side, holders)
  local large = redis.call('HLEN', lock) > 1000
  if not (large and redis.call('HEXISTS', lock, 'mode') == 1 or isLock(lock, '.+')) or heldByOthers(lock, holders)
    or (side == 'read' or side == 'write') and redis.call('HGET', lock, 'mode') ~= side then
    return false
  end
  redis.call('DEL', lock)
  return true
end
local function announce(publish, channel, message)
  return redis.call(publish, channel, message)
end
local function announceFree(publish, channel, side)
  if side == 'write' then
    announce(publish, channel, '1')
  end
  return announce(publish, channel, '0')
end
if not forced(KEYS[1], ARGV[6], ARGV[7]) then
  return 0
end
if ARGV[4] ~= '' then
  announceFree(ARGV[5], ARGV[4], ARGV[6])
end
return 1
