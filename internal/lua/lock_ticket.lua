-- Gives the lock from its holder to that of a ticket, or from that to whoever presents the ticket, and tells those who wait when the lease
-- is over. A repeated call returns the same.
--
-- KEYS[1] lock       hash: holder -> count; a read-write lock also has a mode
-- KEYS[2] line       zset: waiter -> Unix us of its arrival; the lock again if nobody stands in one
-- KEYS[3] token      the latest token, or else the tombstones
-- KEYS[4] tombstones hash: number -> Unix ms; only if there is a token
-- ARGV[1] next       the holder that gets the lock
-- ARGV[2] lease      ms, of the next holder
-- ARGV[3] number     of the next holder
-- ARGV[4] base       Redisson's channel
-- ARGV[5] publish    PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[6] last       the holder that gives the lock up
-- ARGV[7] draws      1 if the next holder is no ticket, and draws a token; - if its kind has none, and tells nobody if nobody stands in the line
-- returns the token or 0 when given; -1 when the last holder does not hold it; -2 when the next holder has a tombstone
-- keeps rules A.1, A.6, M.3, Q.7, Q.8, Q.10, S.17
-- for lock, spin, write
-- with tokens for fenced, fenced write

local reply, first = handOff(KEYS[1], KEYS[4] and ARGV[7] == '1' and KEYS[3], KEYS[4] or KEYS[3], ARGV[6], ARGV[1], ARGV[3], ARGV[2])
if not first then
  return reply
end

-- functions
local side = string.byte(ARGV[1], -1) == 101 and WriteMode or nil -- it ends with :write
return tried(reply, pcall(tellEnd, KEYS[2] ~= KEYS[1] and KEYS[2], ARGV[5], ARGV[4], ARGV[2], ARGV[7] == '-', side))
