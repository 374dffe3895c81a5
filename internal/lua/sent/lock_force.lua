-- afacd33ea9e5a65ae400dc869221d3a578e6ea70 lock_force
-- Generated from ../lock_force.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Frees the lock for any holder, and announces the release if there is a channel.
--
-- KEYS[1] lock     hash: holder -> count
-- ARGV[4] channel  empty means none
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[7] holders  only these may have the lock, separated by line breaks; empty means anybody
-- returns 1 when freed, 0 when nobody held it, or others
-- for lock, fenced, spin

local function heldByOthers(lock, holders)
  local allowed, count = {}, 0
  for holder in string.gmatch(holders, '[^\n]+') do
    allowed[holder], count = true, count + 1
  end
  if count == 0 or redis.call('HLEN', lock) > count + 1 then
    return count > 0
  end
  for _, field in ipairs(redis.call('HKEYS', lock)) do
    if field ~= 'mode' and not allowed[field] then
      return true
    end
  end
  return false
end
local function announce(publish, channel, message)
  if publish == 'BOTH' then
    return announce('SPUBLISH', channel, message) + announce('PUBLISH', channel, message)
  end
  local receivers = redis.pcall(publish, channel, message)
  return type(receivers) == 'number' and receivers or 0
end
if redis.call('HLEN', KEYS[1]) == 0 or heldByOthers(KEYS[1], ARGV[7]) then
  return 0
end
redis.call('DEL', KEYS[1])
if ARGV[4] ~= '' then
  announce(ARGV[5], ARGV[4], '0')
end
return 1
