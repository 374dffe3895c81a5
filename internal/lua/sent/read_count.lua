-- 21c78434d1933e748445466c595f14ebe3a551f4 read_count
-- Generated from ../read_count.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Sets the count of a reader's open acquisitions, after a re-entry or a partial release. Never creates the holder: a lost
-- hold stays lost.
--
-- KEYS[1] lock    hash: mode -> read or write, holder -> count
-- KEYS[2] hold    a string that lives as long as this hold
-- ARGV[1] holder
-- ARGV[2] lease   ms that must remain; never shortens the present lease
-- ARGV[6] count
-- returns 1, or 0 when the hold is gone
-- for read

local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 or redis.call('EXISTS', KEYS[2]) == 0 then
  return 0
end
extend(KEYS[2], ARGV[2])
extend(KEYS[1], ARGV[2])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[6])
return 1
