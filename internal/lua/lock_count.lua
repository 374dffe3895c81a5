-- Shows how many entries a holder has open, after a re-entry or a partial release. Never creates the holder: a lock
-- that was lost stays lost.
--
-- KEYS[1] lock    hash: holder -> count
-- ARGV[1] holder
-- ARGV[2] lease   ms that must remain; the present lease is never shortened
-- ARGV[6] count
-- returns 1, or 0 when the holder is gone

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
extend(KEYS[1], ARGV[2])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[6])
return 1
