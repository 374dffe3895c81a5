-- d901cbefef3eb188bee50a69f3d6db078b0453f0 lock_count
-- Generated from ../lock_count.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Sets the count of a holder's open acquisitions, after a re-entry or a partial release. Never creates the holder: a lost
-- lock stays lost.
--
-- KEYS[1] lock    hash: holder -> count; a read-write lock also has a mode
-- KEYS[2] hold    a string that lives as long as this hold; only for a reader
-- ARGV[1] holder
-- ARGV[2] lease   ms that must remain; never shortens the present lease
-- ARGV[6] count
-- returns 1, or 0 when the holder is gone
-- keeps rules A.2, A.4, G.1
-- for lock, fenced, spin, fair, fenced fair, read, write, fenced write

local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 or KEYS[2] and redis.call('EXISTS', KEYS[2]) == 0 then
  return 0
end
if KEYS[2] then
  extend(KEYS[2], ARGV[2])
end
extend(KEYS[1], ARGV[2])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[6])
return 1
