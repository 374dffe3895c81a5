-- Sets the count of a holder's open acquisitions, after a re-entry or a partial release. Never creates the holder: a lost
-- lock stays lost.
--
-- KEYS[1] lock    hash: holder -> count
-- ARGV[1] holder
-- ARGV[2] lease   ms that must remain; never shortens the present lease
-- ARGV[6] count
-- returns 1, or 0 when the holder is gone
-- for lock, fenced, spin, fair, fenced fair, write, fenced write

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
extend(KEYS[1], ARGV[2])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[6])
return 1
